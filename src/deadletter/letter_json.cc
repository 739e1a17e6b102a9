#include "deadletter/letter_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/hmac.h"
#include "base/json_object.h"
#include "base/text.h"
#include "base/uuid.h"
#include "deadletter/retry_rules.h"

namespace deliverd::deadletter {

namespace {

using store::Letter;
using store::LetterDetail;
using Bytes = std::optional<std::string>;

constexpr char kCursorMark = '_';
constexpr std::size_t kMaxMicrosDigits = 17;  // the year 5138: what every database can hold

/// Readable as it is: UTF-8 without control characters except tabs and line ends.
bool is_text(std::string_view bytes) {
    const auto is_control = [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    };
    return std::ranges::none_of(bytes, is_control) && !find_invalid_utf8(bytes);
}

void add_text(JsonObject& object, std::string_view name, const Bytes& bytes) {
    if (!bytes || !is_text(*bytes)) return object.null(name);
    object.text(name, *bytes);
}

void add_base64(JsonObject& object, std::string_view name, const Bytes& bytes) {
    if (!bytes) return object.null(name);
    object.text(name, base64_encoded(*bytes));
}

void add_first_fields(JsonObject& object, const Letter& letter) {
    object.text("id", letter.id);
    object.text("original_topic", letter.provenance.original_topic);
    object.text("error_message", letter.provenance.error_message);
    object.number("retry_count", letter.retry_count);
    object.number("max_retries", letter.max_retries);
    object.raw("payload", letter.payload ? std::string_view(*letter.payload) : "null");
    object.text("status", store::to_string(letter.status));
    object.time("created_at", letter.created_at);
    object.time("updated_at", letter.updated_at);
    object.time("last_retry_at", letter.last_retry_at);
}

void add_origin(JsonObject& object, const Letter& letter) {
    object.text("error_class", letter.provenance.error_class);
    object.number("original_partition", letter.provenance.original_partition);
    object.number("original_offset", letter.provenance.original_offset);
    object.text("producer", letter.provenance.producer);
    const auto& row = letter.lane_row;
    object.text("lane", row ? std::optional(row->lane) : std::nullopt);
    object.text("outbox", row ? std::optional(row->outbox) : std::nullopt);
    object.text("outbox_row_id", row && !row->row_id.empty() ? std::optional(row->row_id) : std::nullopt);
}

void add_letter(JsonObject& object, const LetterDetail& detail, std::string_view pattern) {
    const Letter& letter = detail.letter;
    add_first_fields(object, letter);
    object.text("source", letter.source);
    object.text("topic", letter.topic);
    object.number("partition", letter.partition);
    object.number("offset", letter.offset);
    add_origin(object, letter);
    object.number("value_bytes", letter.value_bytes);
    object.boolean("truncated", letter.truncated);
    object.boolean("in_doubt", letter.in_doubt);
    object.text("last_retry_error", letter.last_retry_error);
    const std::string reason = not_retryable_reason(detail, pattern);
    object.boolean("retryable", reason.empty());
    object.text("not_retryable_reason", reason.empty() ? std::nullopt : std::optional(reason));
    object.boolean("payload_left_out", letter.payload_left_out);
}

std::string header_json(const RecordHeader& header) {
    JsonObject object;
    object.text("name", header.name);
    if (find_invalid_utf8(header.name)) object.text("name_base64", base64_encoded(header.name));
    add_base64(object, "value_base64", header.value);
    add_text(object, "value_text", header.value);
    return object.done();
}

std::string_view time_type(RecordTime type) {
    return type == RecordTime::created ? "created" : "appended";
}

}  // namespace

std::string detail_json(const LetterDetail& letter, std::string_view pattern) {
    JsonObject object;
    add_letter(object, letter, pattern);
    add_text(object, "key", letter.record.key);
    object.text("stack_trace", letter.letter.provenance.stack_trace);
    return object.done();
}

std::string page_json(store::LetterPage page, std::optional<std::int64_t> number, std::int32_t page_size,
                      std::string_view pattern) {
    std::optional<std::string> next;
    if (page.has_next && !page.letters.empty()) {
        next = cursor_text({page.letters.back().created_at, page.letters.back().id});
    }
    JsonArray messages;
    for (Letter& letter : page.letters) {
        JsonObject object;
        add_letter(object, {std::move(letter), {}}, pattern);
        messages.raw(object.done());
    }
    JsonObject pagination;
    pagination.number("total_count", page.total);
    pagination.number("page", number);
    pagination.number("page_size", page_size);
    pagination.boolean("has_next", page.has_next);
    pagination.text("next_cursor", next);
    pagination.boolean("total_is_minimum", page.total_is_minimum);
    JsonObject body;
    body.raw("messages", messages.done());
    body.raw("pagination", pagination.done());
    return body.done();
}

std::string raw_json(const LetterDetail& letter) {
    const Record& record = letter.record;
    const bool timed = record.timestamp_type != RecordTime::none;
    JsonArray headers;
    for (const RecordHeader& header : record.headers) headers.raw(header_json(header));
    JsonObject object;
    add_base64(object, "key_base64", record.key);
    add_base64(object, "value_base64", record.value);
    object.raw("headers", headers.done());
    object.text("topic", letter.letter.topic);
    object.number("partition", letter.letter.partition);
    object.number("offset", letter.letter.offset);
    object.time("timestamp", timed ? foreign_time(record.timestamp_ms) : std::nullopt);
    object.number("timestamp_ms", timed ? std::optional(record.timestamp_ms) : std::nullopt);
    object.text("timestamp_type", timed ? std::optional<std::string>(time_type(record.timestamp_type)) : std::nullopt);
    object.boolean("truncated", letter.letter.truncated);
    add_text(object, "key_text", record.key);
    add_text(object, "value_text", record.value);
    return object.done();
}

std::string audit_json(std::span<const store::LetterAudit> lines) {
    JsonArray array;
    for (const store::LetterAudit& line : lines) {
        JsonObject object;
        object.time("at", line.at);
        object.text("action", line.action);
        object.text("actor", line.actor);
        object.text("status_from", line.status_from);
        object.text("status_to", line.status_to);
        object.text("detail", line.detail);
        array.raw(object.done());
    }
    JsonObject body;
    body.raw("audit", array.done());
    return body.done();
}

std::string topic_json(const store::TopicCounts& topic) {
    JsonObject object;
    object.text("topic", topic.topic);
    object.text("source", topic.source);
    object.number("total", topic.pending + topic.retrying + topic.resolved + topic.dead);
    object.number("pending", topic.pending);
    object.number("retrying", topic.retrying);
    object.number("resolved", topic.resolved);
    object.number("dead", topic.dead);
    object.time("newest_at", topic.newest_at);
    return object.done();
}

std::string topics_json(std::span<const store::TopicCounts> topics) {
    JsonArray array;
    for (const store::TopicCounts& topic : topics) array.raw(topic_json(topic));
    JsonObject body;
    body.raw("topics", array.done());
    return body.done();
}

std::string plan_json(std::span<const PlannedReplay> planned) {
    JsonArray destinations;
    std::int64_t matched = 0;
    for (const auto& [destination, refused] : planned) {
        const std::string_view source = destination.source;
        JsonObject object;
        object.text(source == "kafka" ? "topic" : source.substr(0, source.find(':')), destination.topic);
        object.number("count", destination.letters);
        object.text("refused", refused.empty() ? std::nullopt : std::optional(refused));
        destinations.raw(object.done());
        matched += destination.letters;
    }
    JsonObject body;
    body.boolean("dry_run", true);
    body.number("matched", matched);
    body.raw("by_destination", destinations.done());
    return body.done();
}

std::string state_json(std::string_view id, store::LetterStatus status, std::string_view message) {
    JsonObject object;
    object.text("id", id);
    object.text("status", store::to_string(status));
    object.text("message", message);
    return object.done();
}

std::string row_json(const Letter& letter) {
    JsonObject object;
    add_first_fields(object, letter);
    object.text("source", letter.source);
    object.text("source_topic", letter.topic);
    object.number("source_partition", letter.partition);
    object.number("source_offset", letter.offset);
    object.boolean("truncated", letter.truncated);
    add_origin(object, letter);
    object.text("last_retry_error", letter.last_retry_error);
    object.boolean("in_doubt", letter.in_doubt);
    return object.done();
}

std::string cursor_text(const store::LetterCursor& cursor) {
    return fmt::format("{}{}{}", cursor.created_at.time_since_epoch().count(), kCursorMark, cursor.id);
}

std::optional<store::LetterCursor> parse_cursor(std::string_view text) {
    const std::size_t mark = text.find(kCursorMark);
    if (mark > kMaxMicrosDigits || text.front() == '-') return std::nullopt;  // or there is none
    std::int64_t micros = 0;
    const std::string_view digits = text.substr(0, mark);
    const auto [at, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), micros);
    std::string id = canonical_uuid(text.substr(mark + 1));
    if (fault != std::errc{} || at != digits.data() + digits.size() || id.empty()) return std::nullopt;
    return store::LetterCursor{WallTime(std::chrono::microseconds(micros)), std::move(id)};
}

}  // namespace deliverd::deadletter
