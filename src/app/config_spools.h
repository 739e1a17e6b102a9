// The section `spools` of the configuration.
#pragma once

#include <vector>

#include "app/config.h"

namespace deliverd::app {

/// In the file's order. The tokens come from `environment`; one that is named and not there is a problem.
[[nodiscard]] std::vector<SpoolConfig> make_spools(const Values& values, const Environment& environment,
                                                   std::vector<Problem>& problems);

}  // namespace deliverd::app
