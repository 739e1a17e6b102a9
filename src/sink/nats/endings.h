// The outcomes that are not JetStream's answers: their codes and words. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"

namespace deliverd::sink {

/// Nothing was tried.
[[nodiscard]] Outcome unreachable(std::string_view why);
/// Of what kept a message from being published.
[[nodiscard]] Outcome refused(const Error& error);
[[nodiscard]] Outcome too_large(std::size_t bytes, std::string_view hosts, std::int64_t max_payload);
[[nodiscard]] Outcome not_permitted(std::string_view hosts, std::string_view subject);
[[nodiscard]] Outcome not_acknowledged(std::string_view hosts, Duration timeout, std::string_view subject);
[[nodiscard]] Outcome connection_lost(std::string_view hosts, std::string_view why);

}  // namespace deliverd::sink
