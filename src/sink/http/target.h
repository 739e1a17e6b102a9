// The part that every request of a sink shares.
#pragma once

#include <string>
#include <vector>

#include "deliverd/result.h"
#include "sink/http/http_options.h"

namespace deliverd::sink {

/// Outlives the sink's transfers.
struct Target {
    HttpSinkOptions options;
    std::string host;  // host and port, for people
    bool is_https = false;
    std::vector<std::string> secrets;  // of the options, as they are sent; a receiver may repeat them in its answer
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

}  // namespace deliverd::sink
