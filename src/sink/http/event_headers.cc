#include "sink/http/event_headers.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace deliverd::sink {

namespace {

bool same_name(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::equal(a, b, {}, lower, lower);
}

void add(Attributes& out, std::string name, std::string value) {
    const auto has_name = [&](const auto& header) { return same_name(header.first, name); };
    if (std::ranges::none_of(out, has_name)) out.emplace_back(std::move(name), std::move(value));
}

void add_trace_context(Attributes& out, const Message& message) {
    for (const std::string name : {"traceparent", "tracestate"}) {
        for (const auto& [given, value] : message.headers) {
            if (same_name(given, name) && !value.empty() && stands_in_a_header(value)) add(out, name, value);
        }
    }
}

}  // namespace

Attributes event_headers(const Message& message, const EventAttributesOptions& options) {
    Attributes out;
    if (options.format == EventFormat::cloudevents) {
        for (const auto& [name, value] : cloudevents_attributes(message, options.source)) {
            add(out, "ce-" + name, percent_encoded(value));
        }
    } else {
        for (const auto& [name, value] : plain_attributes(message)) {
            if (name == "message_id") continue;
            add(out, http_header_name(name), plain_header_value(value));
        }
    }
    add_trace_context(out, message);
    return out;
}

}  // namespace deliverd::sink
