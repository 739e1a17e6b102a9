// The parts of a server's URL: SCHEME://USER:PASSWORD@HOST:PORT/PATH. Pure code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd::sink {

/// Everything but `path` is decoded.
struct ServerUrl {
    std::string scheme{};
    std::string user{};  // never empty where one is written
    std::string password{};
    std::string host{};                   // an IPv6 address without its brackets
    std::uint16_t port = 0;               // 0: none is written
    std::string path{};                   // as written: empty, or from the first "/"
    std::vector<std::string> segments{};  // of the path, decoded

    /// Host and port for people, without a secret; only the host where `port` is 0.
    [[nodiscard]] std::string place() const;
};

/// Reads a URL as RFC 3986 has it: special characters in user and password are percent-encoded. Failure (permanent,
/// `bad_argument`): says what is wrong and never repeats the URL, which may hold a password. Query and fragment are
/// refused: nobody would read them.
[[nodiscard]] Result<ServerUrl> parse_server_url(std::string_view url);

/// The parts between commas; at least one, which may be empty.
[[nodiscard]] std::vector<std::string_view> comma_separated(std::string_view list);

}  // namespace deliverd::sink
