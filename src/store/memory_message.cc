#include "store/memory_message.h"

#include <algorithm>

#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::store {
namespace {

/// The names and punctuation of the body, and the ids at their longest.
constexpr std::size_t kBodyFrameBytes = 128;

void append_member(std::string& out, std::string_view name, std::string_view text) {
    out += name;
    if (find_invalid_utf8(text)) {
        append_json_string(out, valid_utf8(text));
    } else {
        append_json_string(out, text);
    }
}

}  // namespace

Message memory_message(const MemoryFields& row) {
    Message message;
    message.id = row.outbox_id;
    message.message_id = "memory-" + std::to_string(row.outbox_id);
    message.key = row.target_space;
    message.content_type = "application/json";
    message.failures = row.retry_count;

    message.dedup_key.reserve(row.target_space.size() + 1 + row.payload_sha.size());
    message.dedup_key.append(row.target_space).append(1, '\0').append(row.payload_sha);

    std::string& body = message.body;
    body.reserve(kBodyFrameBytes + row.target_space.size() + row.payload_md.size() + row.payload_sha.size());
    body += R"({"outbox_id":)";
    body += std::to_string(row.outbox_id);
    body += R"(,"item_id":)";
    body += row.item_id ? std::to_string(*row.item_id) : "null";
    append_member(body, R"(,"target_space":)", row.target_space);
    append_member(body, R"(,"payload_md":)", row.payload_md);
    append_member(body, R"(,"payload_sha":)", row.payload_sha);
    body += '}';
    return message;
}

std::string storable(std::string_view text) {
    std::string clean = valid_utf8(text);
    std::erase(clean, '\0');
    return clean;
}

}  // namespace deliverd::store
