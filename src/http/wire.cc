#include "http/wire.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/text.h"

namespace deliverd::http {

namespace {

constexpr std::size_t kMaxMethodBytes = 32;

/// Sun, 06 Nov 1994 08:49:37 GMT, whatever the locale: fmt uses one only on request.
std::string imf_date(WallTime now) {
    return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

void append_header(std::string& head, std::string_view name, std::string_view value) {
    head.append(name);
    head.append(": ");
    const auto start = static_cast<std::ptrdiff_t>(head.size());
    head.append(value);
    // A line break would end the header: the author of the value could add headers, or a whole response.
    std::replace_if(head.begin() + start, head.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
    head.append("\r\n");
}

bool written_by_server(std::string_view name) {
    static constexpr std::array<std::string_view, 5> kOwn = {"content-length", "connection", "date", "content-type",
                                                             "transfer-encoding"};
    return std::ranges::any_of(kOwn, [&](std::string_view own) { return equal_ignoring_case(own, name); });
}

}  // namespace

std::optional<Target> parse_target(std::string_view target) {
    if (target == "*") return Target{target, {}, {}};
    std::string_view authority;
    if (target.find('#') != std::string_view::npos) return std::nullopt;  // a client must not send a fragment
    // Absolute form is for proxies, but every server has to accept it (RFC 9112, 3.2.2).
    if (!target.starts_with('/')) {
        const auto scheme_end = target.find("://");
        if (scheme_end == std::string_view::npos) return std::nullopt;
        const auto scheme = target.substr(0, scheme_end);
        if (!equal_ignoring_case(scheme, "http") && !equal_ignoring_case(scheme, "https")) return std::nullopt;
        const auto rest = target.substr(scheme_end + 3);
        const auto authority_end = rest.find_first_of("/?");
        if (authority_end == 0) return std::nullopt;
        authority = rest.substr(0, authority_end);
        if (authority_end == std::string_view::npos) return Target{"/", {}, authority};
        if (rest[authority_end] == '?') return Target{"/", rest.substr(authority_end + 1), authority};
        target = rest.substr(authority_end);
    }
    const auto question = target.find('?');
    if (question == std::string_view::npos) return Target{target, {}, authority};
    return Target{target.substr(0, question), target.substr(question + 1), authority};
}

bool is_sane_method(std::string_view method) {
    return !method.empty() && method.size() <= kMaxMethodBytes &&
           std::ranges::all_of(method, [](char c) { return is_upper(c) || is_digit(c) || c == '-' || c == '_'; });
}

std::string response_head(const Response& response, const HeadOptions& options, WallTime now) {
    std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, options.reason);
    append_header(head, "Date", imf_date(now));
    if (status_has_body(response.status)) {
        append_header(head, "Content-Type", response.content_type);
        append_header(head, "Content-Length", std::to_string(response.body.size()));
    }
    if (!options.keep_alive) {
        append_header(head, "Connection", "close");
    } else if (options.minor_version == 0) {
        append_header(head, "Connection", "keep-alive");
    }
    for (const auto& [name, value] : response.headers) {
        if (!written_by_server(name)) append_header(head, name, value);
    }
    head.append("\r\n");
    return head;
}

}  // namespace deliverd::http
