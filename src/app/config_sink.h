// A lane's sink from checked values, and what only shows in combination.
#pragma once

#include <string>
#include <vector>

#include "app/config.h"

namespace deliverd::app {

/// `lane` is its path, "lanes.events".
[[nodiscard]] SinkConfig make_sink_config(const Values& values, const std::string& lane,
                                          std::vector<Problem>& problems);

/// A key that was given but refused has its own problem already; it is not missing on top of that.
[[nodiscard]] bool has_problem_at(const std::vector<Problem>& problems, const std::string& path);

}  // namespace deliverd::app
