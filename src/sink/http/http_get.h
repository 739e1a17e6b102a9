// One HTTP GET of a small document. Redirects are not followed and no proxy is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "base/clock.h"
#include "deliverd/result.h"

namespace deliverd::sink {

struct HttpGetOptions {
    std::string url;
    std::string ca_file{};  // PEM; instead of the system's certificate authorities
    Duration connect_timeout = std::chrono::seconds(3);
    Duration timeout = std::chrono::seconds(10);  // whole request
    std::size_t max_bytes = 64UL * 1024;          // a longer document is a failure
};

/// The body of an answer 200. Blocks for at most `timeout`; ends within about a second once `stopped` is true. Failure:
/// permanent, `bad_argument`, for an invalid URL; otherwise retryable, `http_get`, with the cause.
[[nodiscard]] Result<std::string> http_get(const HttpGetOptions& options, const std::atomic<bool>& stopped);

}  // namespace deliverd::sink
