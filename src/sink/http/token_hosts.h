// Which endpoints may have a bearer token, or be believed. Pure.
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

/// Whether nobody on the way can read or change what goes there: https, or http where the host is `localhost` or a
/// loopback address. The host is read as libcurl reads it.
[[nodiscard]] bool is_guarded_url(const std::string& url);

/// Whether the token may go to this URL: to one of `hosts` (as of read_token_host()), any port, with
/// is_guarded_url().
[[nodiscard]] bool may_have_token(const std::string& url, std::span<const std::string> hosts);

}  // namespace deliverd::sink
