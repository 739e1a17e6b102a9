// Which endpoints may get a bearer token, or be trusted. Pure code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd::sink {

/// A host in comparable form: lower case, an IPv6 address without brackets. Failure (permanent, `bad_argument`): the
/// text is not a host alone.
[[nodiscard]] Result<std::string> read_token_host(std::string_view text);

/// Whether nobody on the way can read or change a request to it: https, or http where the host is `localhost` or a
/// loopback address. The host is the one that libcurl connects to.
[[nodiscard]] bool is_guarded_url(const std::string& url);

/// Whether the token may go to this URL: is_guarded_url(), and one of `hosts` (from read_token_host()) at any port.
[[nodiscard]] bool may_have_token(const std::string& url, std::span<const std::string> hosts);

}  // namespace deliverd::sink
