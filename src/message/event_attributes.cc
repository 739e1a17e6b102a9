#include "message/event_attributes.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace deliverd {

namespace {

/// Names of CloudEvents attributes are small letters and digits.
std::string extension_name(std::string_view name) {
    std::string out = ascii_lower(name);
    std::erase_if(out, [](char c) { return !is_alphanumeric(c); });
    return out;
}

}  // namespace

Attributes plain_attributes(const Message& message) {
    Attributes out;
    out.reserve(4 + message.headers.size());
    each_plain_attribute(message,
                         [&](std::string_view name, std::string_view value) { out.emplace_back(name, value); });
    return out;
}

Attributes cloudevents_attributes(const Message& message, std::string_view source) {
    constexpr std::array<std::string_view, 10> kReserved{"specversion", "id",      "source",       "type",
                                                         "time",        "subject", "partitionkey", "datacontenttype",
                                                         "dataschema",  "data"};
    Attributes out;
    out.reserve(7 + message.headers.size());  // `seen` has views of the names, which must not move
    out.emplace_back("specversion", "1.0");
    out.emplace_back("id", message.message_id);
    out.emplace_back("source", source);
    out.emplace_back("type", message.type);
    if (!message.created_at.empty()) out.emplace_back("time", message.created_at);
    out.emplace_back("subject", message.key);
    out.emplace_back("partitionkey", message.key);
    SeenNames seen;
    // An entry of the metadata must not replace what the event says about itself.
    for (const std::string_view reserved : kReserved) seen.add(reserved);
    for (const auto& [name, value] : message.headers) {
        std::string extension = extension_name(name);
        if (extension.empty()) continue;
        out.emplace_back(std::move(extension), value);
        if (!seen.add(out.back().first)) out.pop_back();
    }
    return out;
}

std::string percent_encoded(std::string_view value) {
    return percent_encoded(value, [](char c) { return c > ' ' && c < 0x7F && c != '"' && c != '%'; });
}

bool stands_in_a_header(std::string_view value) {
    return std::ranges::all_of(value, [](char c) { return c >= ' ' && c < 127; }) && !value.starts_with(' ') &&
           !value.ends_with(' ');
}

std::string plain_header_value(std::string_view value) {
    const bool as_it_is = stands_in_a_header(value) && value.find('%') == std::string_view::npos;
    return as_it_is ? std::string(value) : percent_encoded(value);
}

std::string http_header_name(std::string_view name) {
    std::string out = "X-";
    for (const char c : name) out.push_back(is_alphanumeric(c) ? c : '-');
    return out;
}

}  // namespace deliverd
