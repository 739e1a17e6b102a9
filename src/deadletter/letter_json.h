// Dead letters as JSON, as the API and the command line show them. Pure.
//
// The seed's fields stand first and in its order, those added since behind them. Times are
// 2026-02-20T10:30:00.000+00:00. `payload` goes out as the database has it: digits of numbers stay as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// The body of GET …/messages/{id}. `pattern`, here and below: as in provenance.h.
[[nodiscard]] std::string detail_json(const store::LetterDetail& letter, std::string_view pattern = kDeadLetterPattern);

/// The body of a listing: {"messages":[…],"pagination":{…}}. `number` is the page's, none when a cursor led to it.
/// Letters are without key and stack trace; a reason against a retry that only the record's headers show is not in it.
[[nodiscard]] std::string page_json(store::LetterPage page, std::optional<std::int64_t> number, std::int32_t page_size,
                                    std::string_view pattern = kDeadLetterPattern);

/// The body of GET …/messages/{id}/raw: key, value and headers in base64, and as text where they are text.
[[nodiscard]] std::string raw_json(const store::LetterDetail& letter);

/// The body of GET …/messages/{id}/audit: {"audit":[…]}, oldest first.
[[nodiscard]] std::string audit_json(std::span<const store::LetterAudit> lines);

/// The body of GET /api/v1/dlq: {"topics":[…]}.
[[nodiscard]] std::string topics_json(std::span<const store::TopicCounts> topics);

/// One of its entries.
[[nodiscard]] std::string topic_json(const store::TopicCounts& topic);

/// One object with the table's column names, for listings of the command line.
[[nodiscard]] std::string row_json(const store::Letter& letter);

/// A position as text that needs no escaping in a URL.
[[nodiscard]] std::string cursor_text(const store::LetterCursor& cursor);
[[nodiscard]] std::optional<store::LetterCursor> parse_cursor(std::string_view text);

}  // namespace deliverd::deadletter
