#pragma once

#include <string_view>

namespace deliverd::daemon {

/// "0.1.0", as CMakeLists.txt has it.
[[nodiscard]] std::string_view version();

}  // namespace deliverd::daemon
