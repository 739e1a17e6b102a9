// The section `spools` of the configuration.
#pragma once

#include <vector>

#include "app/config.h"

namespace deliverd::app {

/// In the file's order. The tokens come from `environment`; one that is not there is a problem of who sends, not of
/// every command.
[[nodiscard]] std::vector<SpoolConfig> make_spools(const Values& values, const Environment& environment,
                                                   std::vector<Problem>& problems);

}  // namespace deliverd::app
