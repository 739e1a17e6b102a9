#include "sink/http/event_headers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace deliverd::sink {

namespace {

bool same_name(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::equal(a, b, {}, lower, lower);
}

constexpr auto kTrustedNames = std::to_array<std::string_view>({"Authorization",
                                                                "Connection",
                                                                "Cookie",
                                                                "Forwarded",
                                                                "Host",
                                                                "Keep-Alive",
                                                                "TE",
                                                                "Trailer",
                                                                "True-Client-IP",
                                                                "Upgrade",
                                                                "Via",
                                                                "X-Access-Token",
                                                                "X-Anonymous-Consumer",
                                                                "X-Api-Key",
                                                                "X-Authorization",
                                                                "X-Client-DN",
                                                                "X-Client-IP",
                                                                "X-Client-Verify",
                                                                "X-Cluster-Client-IP",
                                                                "X-Host",
                                                                "X-Id-Token",
                                                                "X-Method-Override",
                                                                "X-Rewrite-URL",
                                                                "X-Scheme",
                                                                "X-Token",
                                                                "X-User",
                                                                "X-Userinfo",
                                                                "X-Username"});
constexpr auto kTrustedBeginnings = std::to_array<std::string_view>({"CF-",           "Proxy-",
                                                                     "X-Accel-",      "X-Amz-",
                                                                     "X-Amzn-",       "X-Apigateway-",
                                                                     "X-AppEngine-",  "X-ARR-",
                                                                     "X-Auth-",       "X-Authenticated-",
                                                                     "X-Authentik-",  "X-Azure-",
                                                                     "X-Client-Cert", "X-CloudTasks-",
                                                                     "X-Consumer-",   "X-Credential-",
                                                                     "X-CSRF",        "X-Endpoint-API-",
                                                                     "X-Envoy-",      "X-Forwarded",
                                                                     "X-Goog-",       "X-HTTP-Method",
                                                                     "X-JWT",         "X-MS-",
                                                                     "X-Original-",   "X-Originating-",
                                                                     "X-Pomerium-",   "X-Real-",
                                                                     "X-Remote-",     "X-SSL-",
                                                                     "X-User-",       "X-Vouch-",
                                                                     "X-Webauth-",    "X-XSRF"});

std::string lowered(std::string name) {
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return name;
}

/// The first of a name, in whatever letters, counts.
class Headers {
public:
    void add(std::string name, std::string value) {
        if (names_.insert(lowered(name)).second) all_.emplace_back(std::move(name), std::move(value));
    }
    Attributes take() { return std::move(all_); }

private:
    Attributes all_;
    std::unordered_set<std::string> names_;
};

void add_trace_context(Headers& out, const Message& message) {
    for (const std::string name : {"traceparent", "tracestate"}) {
        for (const auto& [given, value] : message.headers) {
            if (same_name(given, name) && !value.empty() && stands_in_a_header(value)) out.add(name, value);
        }
    }
}

}  // namespace

bool is_trusted_header(std::string_view name) {
    const auto begins_it = [&](std::string_view with) { return same_name(name.substr(0, with.size()), with); };
    return std::ranges::any_of(kTrustedNames, [&](std::string_view known) { return same_name(name, known); }) ||
           std::ranges::any_of(kTrustedBeginnings, begins_it);
}

Attributes event_headers(const Message& message, const EventAttributesOptions& options) {
    Headers out;
    if (options.format == EventFormat::cloudevents) {
        for (const auto& [name, value] : cloudevents_attributes(message, options.source)) {
            out.add("ce-" + name, percent_encoded(value));
        }
    } else {
        for (const auto& [name, value] : plain_attributes(message)) {
            if (name == "message_id") continue;
            std::string header = http_header_name(name);
            if (!is_trusted_header(header)) out.add(std::move(header), plain_header_value(value));
        }
    }
    add_trace_context(out, message);
    return out.take();
}

}  // namespace deliverd::sink
