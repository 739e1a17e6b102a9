// Dead letters as JSON, as the API and the command line show them. Pure.
//
// The first fields, from `id` to `last_retry_at`, keep their order for existing clients. Times are
// 2026-02-20T10:30:00.000+00:00. `payload` goes out as the database has it: the digits of numbers stay as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "deadletter/reports.h"
#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// The body of GET …/messages/{id}. `pattern`, here and below: as in provenance.h.
[[nodiscard]] std::string detail_json(const store::LetterDetail& letter, std::string_view pattern = kDeadLetterPattern);

/// The body of a listing: {"messages":[…],"pagination":{…}}. `number` is the page's, none when a cursor led to it.
/// Letters have no key and no stack trace, and no reason against a retry that only the record's headers show.
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

/// The body of a dry run of POST …/retry-all: {"dry_run":true,"matched":N,"by_destination":[…]}. With kMaxPlanned
/// destinations there may be more letters than `matched`.
[[nodiscard]] std::string plan_json(std::span<const PlannedReplay> planned);

/// What a change of one letter answers: {"id","status","message"}.
[[nodiscard]] std::string state_json(std::string_view id, store::LetterStatus status, std::string_view message);

/// One object with the table's column names, for listings of the command line.
[[nodiscard]] std::string row_json(const store::Letter& letter);

/// A position as text that needs no escaping in a URL.
[[nodiscard]] std::string cursor_text(const store::LetterCursor& cursor);
[[nodiscard]] std::optional<store::LetterCursor> parse_cursor(std::string_view text);

}  // namespace deliverd::deadletter
