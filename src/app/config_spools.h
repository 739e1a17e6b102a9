// The section `spools` of the configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config.h"

namespace deliverd::app {

/// In the file's order. The tokens come from `environment`; one that is not there is a problem of who sends, not of
/// every command.
[[nodiscard]] std::vector<SpoolConfig> make_spools(const Values& values, const Environment& environment,
                                                   std::vector<Problem>& problems);

/// What to say about a spool whose token is sent to nobody, if this is one.
[[nodiscard]] std::optional<std::string> token_note(const SpoolConfig& spool);

}  // namespace deliverd::app
