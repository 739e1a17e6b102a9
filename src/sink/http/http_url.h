// URLs as libcurl reads them, so that none names one host here and another one where the request goes; and which of
// them may get a bearer token, or be trusted. Pure code.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::sink {

struct HttpUrl {
    std::string scheme;
    std::string host;  // an IPv6 address has its brackets
    std::string port;  // the scheme's where none is written
    std::string user;  // decoded, as the password
    std::string password;
};
/// Failure as of check_http_url().
[[nodiscard]] Result<HttpUrl> parse_http_url(const std::string& url);

/// A host in comparable form: lower case, an IPv6 address without brackets. Failure (permanent, `bad_argument`): the
/// text is not a host alone.
[[nodiscard]] Result<std::string> read_token_host(std::string_view text);

/// Whether nobody on the way can read or change a request to it: https, or http where the host is `localhost` or a
/// loopback address. The host is the one that libcurl connects to.
[[nodiscard]] bool is_guarded_url(const std::string& url);

/// Whether the token may go to this URL: is_guarded_url(), and one of `hosts` (from read_token_host()) at any port.
[[nodiscard]] bool may_have_token(const std::string& url, std::span<const std::string> hosts);

}  // namespace deliverd::sink
