// The lanes of the configuration, and what only shows in their combination.
#pragma once

#include <vector>

#include "app/config.h"

namespace deliverd::app {

[[nodiscard]] std::vector<LaneConfig> make_lanes(const Values& values, std::vector<Problem>& problems);

}  // namespace deliverd::app
