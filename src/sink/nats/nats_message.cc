#include "sink/nats/nats_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/try.h"

namespace deliverd::sink {

namespace {

// A server reads lines of at most 4096 bytes (max_control_line); subject, reply and sizes share one.
constexpr std::size_t kMaxSubjectBytes = 3500;
constexpr std::size_t kShownSubjectBytes = 128;

std::string header_name(std::string_view name) {
    std::string out(name);
    for (char& c : out) {
        if (!is_visible(c) || c == ':') c = '-';
    }
    return out;
}

bool is_reserved(std::string_view name) {
    const std::string known = ascii_lower(name);
    return known.empty() || known == "content-type" || known.starts_with("nats-");
}

std::string_view problem_of(std::string_view subject) {
    if (subject.empty()) return "empty";
    if (subject.size() > kMaxSubjectBytes) return "too long";
    // $JS.API and its like are commands: an event's type must not be able to delete a stream.
    if (subject.front() == '$') return "one of the server's own";
    if (subject.front() == '.' || subject.back() == '.') return "beginning or ending with a dot";
    if (subject.find("..") != std::string_view::npos) return "with nothing between two dots";
    const auto is_space = [](char c) { return (c >= 0 && c <= ' ') || c == 127; };
    if (std::ranges::any_of(subject, is_space)) return "with white space or control characters";
    if (subject.find_first_of("*>") != std::string_view::npos) return "with a wildcard";
    if (find_invalid_utf8(subject)) return "not UTF-8";
    return {};
}

}  // namespace

std::string shown_subject(std::string_view subject) {
    return shorten(one_line(subject), kShownSubjectBytes);
}

Result<void> check_subject(std::string_view subject) {
    const auto problem = problem_of(subject);
    if (problem.empty()) return {};
    return permanent("BAD_TOPIC",
                     fmt::format("'{}' is not a subject to publish to: {}", shown_subject(subject), problem));
}

Attributes nats_headers(const Message& message, const EventAttributesOptions& options) {
    Attributes out;
    if (options.format == EventFormat::cloudevents) {
        // The NATS binding has it among the attributes, unlike the others.
        if (!message.content_type.empty()) {
            out.emplace_back("ce-datacontenttype", percent_encoded(message.content_type));
        }
        for (auto& [name, value] : cloudevents_attributes(message, options.source)) {
            out.emplace_back("ce-" + name, percent_encoded(value));
        }
        return out;
    }
    for (auto& [name, value] : plain_attributes(message)) {
        if (name == "message_id") continue;
        // The name that is sent is compared: `Nats Rollup` becomes Nats-Rollup, and would purge the stream.
        std::string sent = header_name(name);
        if (!is_reserved(sent)) out.emplace_back(std::move(sent), plain_header_value(value));
    }
    return out;
}

Result<NatsMessage> make_nats_message(const Message& message, const EventAttributesOptions& options,
                                      const std::string& reply) {
    TRY(check_subject(message.topic));
    natsMsg* raw = nullptr;
    // libnats copies all of it: the message may be gone before the last byte is written.
    auto status = natsMsg_Create(&raw, message.topic.c_str(), reply.c_str(), message.body.data(),
                                 static_cast<int>(message.body.size()));
    NatsMessage made(raw);
    const auto add = [&](const std::string& name, const std::string& value) {
        if (status == NATS_OK) status = natsMsgHeader_Set(raw, name.c_str(), value.c_str());
    };
    if (!message.message_id.empty()) add("Nats-Msg-Id", plain_header_value(message.message_id));
    if (!message.content_type.empty()) add("Content-Type", plain_header_value(message.content_type));
    for (const auto& [name, value] : nats_headers(message, options)) add(name, value);
    if (status != NATS_OK) return retryable("no_resources", natsStatus_GetText(status));
    return made;
}

}  // namespace deliverd::sink
