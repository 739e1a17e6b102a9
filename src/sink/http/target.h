// What every request of a sink shares.
#pragma once

#include <string>

#include "deliverd/result.h"
#include "sink/http/http_options.h"

namespace deliverd::sink {

/// Outlives the sink's transfers.
struct Target {
    HttpSinkOptions options;
    std::string host;  // host and port, for people
    bool is_https = false;
};

/// Failure as of make_http_sink().
[[nodiscard]] Result<Target> make_target(HttpSinkOptions options);

/// As libcurl reads them; the host of an IPv6 address has its brackets.
struct UrlParts {
    std::string scheme;
    std::string host;
};
/// Failure as of check_http_url().
[[nodiscard]] Result<UrlParts> split_http_url(const std::string& url);

[[nodiscard]] Result<void> check_ca_file(const std::string& path);

}  // namespace deliverd::sink
