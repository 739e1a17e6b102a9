#include "sink/http/request_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ranges>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "sink/http/http_options.h"

namespace deliverd::sink {

namespace {

// A word with * means every name with that beginning. The writer of an event must not be able to name another sender
// of the request, or change its method: metadata `forwarded_for` would become X-Forwarded-For.
constexpr std::string_view kTrustedNames =
    "Authorization Connection Cookie Forwarded Host Keep-Alive TE Trailer True-Client-IP Upgrade Via "
    "X-Access-Token X-Anonymous-Consumer X-Api-Key X-Authorization X-Client-DN X-Client-IP "
    "X-Client-Verify X-Cluster-Client-IP X-Host X-Id-Token X-Method-Override X-Rewrite-URL X-Scheme "
    "X-Token X-User X-Userinfo X-Username CF-* Proxy-* X-Accel-* X-Amz-* X-Amzn-* X-Apigateway-* "
    "X-AppEngine-* X-ARR-* X-Auth-* X-Authenticated-* X-Authentik-* X-Azure-* X-Client-Cert* "
    "X-CloudTasks-* X-Consumer-* X-Credential-* X-CSRF* X-Endpoint-API-* X-Envoy-* X-Forwarded* X-Goog-* "
    "X-HTTP-Method* X-JWT* X-MS-* X-Original-* X-Originating-* X-Pomerium-* X-Real-* X-Remote-* X-SSL-* "
    "X-User-* X-Vouch-* X-Webauth-* X-XSRF*";

bool is_token_character(char c) {
    return is_alphanumeric(c) || (c != '\0' && std::strchr("!#$%&'*+-.^_`|~", c) != nullptr);
}

/// Headers that say where a request ends are libcurl's to write.
bool is_framing(std::string_view name) {
    const std::string lower = ascii_lower(name);
    return lower == "content-length" || lower == "transfer-encoding" || lower == "connection";
}

}  // namespace

bool is_header(std::string_view name, std::string_view value) {
    // Also without line breaks: some receivers end a header at other control characters.
    const auto breaks_line = [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; };
    return !name.empty() && !is_framing(name) && std::ranges::all_of(name, is_token_character) &&
           std::ranges::none_of(value, breaks_line);
}

Failure unsendable_header(std::string_view code, std::string_view name) {
    return permanent(std::string(code),
                     fmt::format("header '{}' cannot be sent: it has a line break, a control character or a name "
                                 "that may not be set",
                                 shorten(one_line(name), 64)));
}

Result<void> check_http_header(std::string_view name, std::string_view value) {
    if (is_header(name, value)) return {};
    return unsendable_header("bad_argument", name);
}

bool is_trusted_header(std::string_view name) {
    for (const auto part : std::views::split(kTrustedNames, ' ')) {
        std::string_view word(part.begin(), part.end());
        const bool is_beginning = word.ends_with('*');
        if (is_beginning) word.remove_suffix(1);
        if (equal_ignoring_case(is_beginning ? name.substr(0, word.size()) : name, word)) return true;
    }
    return false;
}

Attributes event_headers(const Message& message, const EventAttributesOptions& options) {
    Attributes out;
    // A set, because one event may have 200,000 names. Case does not matter in HTTP.
    std::unordered_set<std::string> names;
    const auto add = [&](std::string name, std::string value) {
        if (names.insert(ascii_lower(name)).second) out.emplace_back(std::move(name), std::move(value));
    };
    if (options.format == EventFormat::cloudevents) {
        for (const auto& [name, value] : cloudevents_attributes(message, options.source)) {
            add("ce-" + name, percent_encoded(value));
        }
    } else {
        for (const auto& [name, value] : plain_attributes(message)) {
            if (name == "message_id") continue;
            // Left out, not refused: metadata belongs to the event's writer, and the event itself is fine.
            std::string header = http_header_name(name);
            if (!is_trusted_header(header)) add(std::move(header), plain_header_value(value));
        }
    }
    for (const std::string name : {"traceparent", "tracestate"}) {
        for (const auto& [given, value] : message.headers) {
            if (equal_ignoring_case(given, name) && !value.empty() && stands_in_a_header(value)) add(name, value);
        }
    }
    return out;
}

}  // namespace deliverd::sink
