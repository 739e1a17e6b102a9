// The parts of the one list of settings (settings.h), a file each because together they are too long for one.
#pragma once

#include <span>

#include "app/settings.h"

namespace deliverd::app {

// Limits of several settings.
inline constexpr double kDay = 86400;
inline constexpr double kMaxBytes = 1024.0 * 1024 * 1024;

[[nodiscard]] std::span<const Setting> general_settings();
[[nodiscard]] std::span<const Setting> lane_settings();
[[nodiscard]] std::span<const Setting> sink_settings();
[[nodiscard]] std::span<const Setting> spool_settings();

}  // namespace deliverd::app
