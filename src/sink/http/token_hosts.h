// Which endpoints that come from data may have a bearer token. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd::sink {

/// A host as it is compared: in small letters, an IPv6 address without brackets. Failure (permanent, `bad_argument`):
/// it is no host alone.
[[nodiscard]] Result<std::string> read_token_host(std::string_view text);

/// Whether the token may go to this URL: to one of `hosts` (as of read_token_host()), over https, or over http where
/// the host is `localhost` or a loopback address. Any port. The host is read as libcurl reads it.
[[nodiscard]] bool may_have_token(const std::string& url, std::span<const std::string> hosts);

}  // namespace deliverd::sink
