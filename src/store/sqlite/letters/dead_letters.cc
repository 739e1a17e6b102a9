#include "store/sqlite/letters/dead_letters.h"

#include <fmt/format.h>

#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "base/try.h"
#include "base/uuid.h"
#include "client/sql_values.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"
#include "store/sqlite/letters/letter_query.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

/// Ids sort as the letters were given, also within a millisecond, so that a redrive sends them in that order: the
/// microseconds and `number` stand where a UUID version 7 has random bits.
std::string ordered_id(WallTime now, std::size_t number, Random& random) {
    std::string id = make_uuid_v7(now, random);
    constexpr std::size_t kHalf = 12;
    constexpr std::size_t kNumberBits = 14;
    constexpr std::size_t kMask = (1U << kHalf) - 1;
    const auto micros = static_cast<std::size_t>(now.time_since_epoch().count() % 1000);
    const std::size_t place = (micros << kNumberBits) | (number & ((1U << kNumberBits) - 1));
    id.replace(15, 3, fmt::format("{:03x}", place >> kHalf));
    id.replace(19, 4, fmt::format("8{:03x}", place & kMask));
    return id;
}

std::string_view name_of(RecordTime type) {
    switch (type) {
        case RecordTime::created:
            return "created";
        case RecordTime::appended:
            return "appended";
        case RecordTime::none:
            break;
    }
    return "none";
}

/// With what was wrong just now: the row itself, or everything.
Error refusal_of(Handle& handle, Error error) {
    const int code = sqlite3_errcode(handle.raw()) & 0xFF;
    if (code == SQLITE_TOOBIG || code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH) error.code = kLetterRefused;
    return error;
}

/// Whether it was new.
Result<bool> store_letter(Handle& handle, const NewLetter& letter, std::string_view id, std::string_view now) {
    const Record& record = letter.record;
    const Provenance& from = letter.provenance;
    const auto of_record = [&](auto value) { return record.topic.empty() ? std::nullopt : std::optional(value); };
    auto stored = handle.change(
        letters::sql::store_letter, letter.id.empty() ? id : letter.id, now, of_record(std::string_view(record.topic)),
        of_record(record.partition), of_record(record.offset), record.timestamp_ms, name_of(record.timestamp_type),
        client::Blob{record.key}, client::Blob{record.value}, record_headers_json(record.headers), letter.payload,
        letter.truncated, from.original_topic, from.original_partition, from.original_offset, from.error_message,
        from.error_class, from.stack_trace, from.producer, letter.source);
    if (!stored) return Failure(refusal_of(handle, std::move(stored.error())));
    return *stored == 1;
}

LetterAudit audit_line_at(const SqliteStatement& row) {
    LetterAudit line;
    row.read(line.at, line.action, line.actor, line.status_from, line.status_to, line.detail);
    return line;
}

TopicCounts topic_counts_at(const SqliteStatement& row) {
    TopicCounts counts;
    row.read(counts.topic, counts.source, counts.pending, counts.retrying, counts.resolved, counts.dead,
             counts.newest_at);
    return counts;
}

Destination destination_at(const SqliteStatement& row) {
    Destination found;
    row.read(found.topic, found.source, found.letters);
    return found;
}

/// A retry whose process is gone is in doubt before anybody has recorded that.
Letter shown_letter(Letter letter) {
    letter.in_doubt = letter.in_doubt || letter.unfinished;
    return letter;
}

/// `so_far`: what the long payloads before it have.
void leave_out_long_payload(Letter& letter, std::int64_t& so_far) {
    if (!letter.payload) return;
    const auto bytes = letter.value_bytes > 0 ? letter.value_bytes : static_cast<std::int64_t>(letter.payload->size());
    if (bytes <= kShortPayloadBytes) return;
    so_far += bytes;
    if (so_far <= kMaxLongPayloadBytes) return;
    letter.payload.reset();
    letter.payload_left_out = true;
}

}  // namespace

Result<std::int64_t> SqliteDeadLetters::store(std::span<const NewLetter> letters) {
    for (const NewLetter& letter : letters) {
        TRY(check_letter(letter));
    }
    if (letters.empty()) return 0;
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        SystemRandom random;
        const WallTime now = SystemClock().wall_now();
        const std::string now_text = rfc3339_millis(now);
        std::int64_t fresh = 0;
        for (std::size_t i = 0; i < letters.size(); ++i) {
            TRY_ASSIGN(auto stored, store_letter(handle, letters[i], ordered_id(now, i, random), now_text));
            fresh += stored ? 1 : 0;
        }
        return fresh;
    });
}

Result<LetterPage> SqliteDeadLetters::list(const LetterQuery& query) {
    TRY(check_letter_query(query));
    TRY_ASSIGN(auto handle, query.text || query.key ? file_.searcher() : file_.reader());  // no index has either
    TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));
    const std::int64_t offset = query.after ? 0 : query.offset;
    const std::int64_t rows = std::int64_t{query.limit} + 1;
    LetterPage page;
    std::int64_t long_payload_bytes = 0;
    const auto add = [&](const SqliteStatement& row) {
        Letter& letter = page.letters.emplace_back(shown_letter(letter_at(row)));
        letter.provenance.stack_trace.reset();
        leave_out_long_payload(letter, long_payload_bytes);
    };
    const auto count = [&](const SqliteStatement& row) { page.total = row.get<std::int64_t>(); };
    const auto each = [&](const std::string& sql, const auto& read, std::int64_t at_most) {
        return std::apply(
            [&](const auto&... values) { return handle->each(sql, read, values..., rows, offset, at_most); },
            letter_values(query));
    };
    TRY(each(letter_page_sql(query), add, rows + offset));
    page.has_next = page.letters.size() == static_cast<std::size_t>(rows);
    if (page.has_next) page.letters.pop_back();
    TRY(each(letter_total_sql(query), count, kMaxCounted + 1));
    page.total_is_minimum = !counted(query) && page.total > kMaxCounted;
    if (page.total_is_minimum) page.total = kMaxCounted;
    return page;
}

Result<std::optional<LetterDetail>> SqliteDeadLetters::find(std::string_view id) {
    TRY_ASSIGN(auto handle, file_.reader());
    TRY_ASSIGN(auto stored, stored_letter(*handle, canonical_uuid(id)));
    if (!stored) return std::nullopt;
    stored->detail.letter = shown_letter(std::move(stored->detail.letter));
    return std::move(stored->detail);
}

Result<std::vector<LetterAudit>> SqliteDeadLetters::audit(std::string_view id, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::letter_audit, &audit_line_at, canonical_uuid(id), limit);
}

Result<std::vector<TopicCounts>> SqliteDeadLetters::topics() {
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::topics, &topic_counts_at);
}

Result<std::vector<Destination>> SqliteDeadLetters::destinations(std::string_view topic, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::destinations, &destination_at, topic, limit);
}

Result<std::optional<Letter>> SqliteDeadLetters::mark_dead(std::string_view id, std::string_view actor) {
    TRY(check_upkeep_name("actor", actor));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Letter>> {
        TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
        if (!stored) return std::nullopt;
        const Letter& letter = stored->detail.letter;
        const bool open = letter.status == LetterStatus::pending || letter.status == LetterStatus::retrying;
        if (!open || stored->retry_is_live) return letter;
        TRY(handle.run(letters::sql::mark_dead, letter.id));
        TRY(audit_letter(handle, letter.id, {"dead", actor, std::string(to_string(letter.status)), "DEAD"}));
        return letter;
    });
}

Result<std::optional<Letter>> SqliteDeadLetters::revive(std::string_view id, std::string_view actor) {
    TRY(check_upkeep_name("actor", actor));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Letter>> {
        TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
        if (!stored) return std::nullopt;
        const Letter& letter = stored->detail.letter;
        if (letter.status != LetterStatus::dead || is_order(letter)) return letter;
        TRY(handle.run(letters::sql::revive, letter.id));
        TRY(audit_letter(handle, letter.id, {"revived", actor, "DEAD", "PENDING"}));
        return letter;
    });
}

Result<Removal> SqliteDeadLetters::remove(std::string_view id, std::string_view actor) {
    TRY(check_upkeep_name("actor", actor));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Removal> {
        TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
        if (!stored) return Removal::unknown;
        if (stored->retry_is_live) return Removal::under_way;
        const Letter& letter = stored->detail.letter;
        TRY(handle.run(letters::sql::remove_letter, letter.id));
        TRY(audit_letter(handle, letter.id, {"deleted", actor, std::string(to_string(letter.status))}));
        return Removal::removed;
    });
}

Result<std::int64_t> SqliteDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                              std::string_view actor) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    TRY(check_upkeep_name("actor", actor));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        TRY_ASSIGN(const auto gone,
                   handle.values<std::string>(letters::sql::purge, to_string(status), client::time_ago(age), limit));
        for (const std::string& id : gone) {
            TRY(audit_letter(handle, id, {"purged", actor, std::string(to_string(status))}));
        }
        return static_cast<std::int64_t>(gone.size());
    });
}

Result<std::int64_t> SqliteDeadLetters::purge_history(Duration age, std::int32_t limit) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        const std::string ago = client::time_ago(age);
        TRY_ASSIGN(const auto redrives, handle.change(letters::sql::purge_redrives, ago, limit));
        TRY_ASSIGN(const auto lines, handle.change(letters::sql::purge_audit, ago, limit - redrives));
        return redrives + lines;
    });
}

}  // namespace deliverd::store::sqlite
