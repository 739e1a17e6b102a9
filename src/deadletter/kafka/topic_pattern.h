// The shell-style pattern of a configuration as librdkafka subscribes to it. Pure code.
#pragma once

#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::deadletter {

/// `*` is any number of characters, `?` is one, everything else is itself: `*.dlq.v1` is `^.*\.dlq\.v1$`. The pattern
/// is for whole names.
[[nodiscard]] std::string subscription_of(std::string_view pattern);

/// Permanent error for a pattern that no topic's name can match.
[[nodiscard]] Result<void> check_topic_pattern(std::string_view pattern);

}  // namespace deliverd::deadletter
