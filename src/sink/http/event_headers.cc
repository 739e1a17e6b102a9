#include "sink/http/event_headers.h"

#include <algorithm>
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

Attributes event_headers(const Message& message, const EventAttributesOptions& options) {
    Headers out;
    if (options.format == EventFormat::cloudevents) {
        for (const auto& [name, value] : cloudevents_attributes(message, options.source)) {
            out.add("ce-" + name, percent_encoded(value));
        }
    } else {
        for (const auto& [name, value] : plain_attributes(message)) {
            if (name == "message_id") continue;
            out.add(http_header_name(name), plain_header_value(value));
        }
    }
    add_trace_context(out, message);
    return out.take();
}

}  // namespace deliverd::sink
