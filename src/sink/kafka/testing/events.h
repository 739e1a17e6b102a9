// For tests of this sink: sending with the patience that a broker needs.
#pragma once

#include <chrono>
#include <string_view>

#include "sink/sink.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {

inline constexpr auto kBrokerPatience = std::chrono::seconds(60);  // a test that waits this long has failed

inline Outcome send_to_broker(Sink& sink, const Message& message) {
    return send_one(sink, message, kBrokerPatience);
}

/// Sends `message` again and again until its outcome's code is `code`.
inline Outcome send_until(Sink& sink, const Message& message, std::string_view code) {
    const auto end = std::chrono::steady_clock::now() + kBrokerPatience;
    while (true) {
        auto outcome = send_to_broker(sink, message);
        if (outcome.code == code || std::chrono::steady_clock::now() > end) return outcome;
    }
}

}  // namespace deliverd::sink
