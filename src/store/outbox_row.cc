#include "store/outbox_row.h"

#include <array>

#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::store {
namespace {

/// The names and punctuation of the body, and the ids at their longest.
constexpr std::size_t kBodyFrameBytes = 128;

/// As SettleKind counts.
constexpr std::array<std::string_view, 4> kSettleReasons = {"outbox_flush_success", "outbox_flush_dedup_hit",
                                                            "outbox_flush_retry", "outbox_flush_dead"};

void append_member(std::string& out, std::string_view name, std::string_view text) {
    out += name;
    if (find_invalid_utf8(text)) {
        append_json_string(out, valid_utf8(text));
    } else {
        append_json_string(out, text);
    }
}

std::optional<std::string> unless_empty(std::string text) {
    if (text.empty()) return std::nullopt;
    return text;
}

/// The intake accepts only trace ids that can be a header; a row inserted by hand may hold anything.
bool is_header_value(std::string_view text) {
    return !text.empty() &&
           std::none_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
}

}  // namespace

std::string storable(std::string_view text) {
    std::string clean = valid_utf8(text);
    std::erase(clean, '\0');
    return clean;
}

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

Message order_message(const OrderFields& row) {
    Message message;
    message.id = row.id;
    message.message_id = row.idempotency_key;
    message.key = row.idempotency_key;
    message.body = row.request;
    message.content_type = "application/json";
    if (is_header_value(row.trace_id)) message.headers.emplace_back("X-Trace-Id", row.trace_id);
    message.failures = row.retry_count;
    return message;
}

std::vector<std::size_t> settle_order(std::span<const Settlement> settlements) {
    return firsts_by_key(settlements, &Settlement::id);
}

std::optional<std::string> settle_note(const Settlement& settlement) {
    if (failed(settlement)) return shorten(storable(settlement.error), kMaxStoredErrorBytes);
    if (!settlement.receipt) return std::nullopt;
    // The column of the error holds the receipt of a row that was sent: check_dedup reads it back by this prefix.
    return "memory_id=" + storable(*settlement.receipt);
}

double settle_delay_seconds(const Settlement& settlement) {
    return std::clamp(to_seconds(settlement.delay), 0.0, kMaxDelaySeconds);
}

std::string_view settle_reason(SettleKind kind) {
    return kSettleReasons.at(static_cast<std::size_t>(kind));
}

OrderSettled order_settled(const Settlement& settlement) {
    OrderSettled settled;
    settled.last_error = unless_empty(storable(settlement.code));
    settled.last_error_detail = unless_empty(shorten(storable(settlement.error), kMaxStoredErrorBytes));
    if (failed(settlement)) return settled;
    if (settlement.receipt) settled.broker_order_id = storable(*settlement.receipt);
    if (settlement.answer) {
        settled.result_digest = storable(settlement.answer->digest);
        settled.result_json = storable(settlement.answer->body);
    }
    return settled;
}

std::string_view order_settle_reason(SettleKind kind) {
    return settle_reason(kind == SettleKind::duplicate ? SettleKind::sent : kind);
}

}  // namespace deliverd::store
