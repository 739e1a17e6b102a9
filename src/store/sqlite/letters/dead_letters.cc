#include "store/sqlite/letters/dead_letters.h"

#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "base/try.h"
#include "base/uuid.h"
#include "client/sql_values.h"
#include "store/letter_columns.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"
#include "store/sqlite/letters/letter_query.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

/// kLetterRefused only where the letter itself is at fault. Anything else, such as a table that is missing for a
/// moment, must not make ingest strip records of their payloads.
Error refusal_of(Handle& handle, Error error) {
    const int code = sqlite3_errcode(handle.raw()) & 0xFF;
    if (code == SQLITE_TOOBIG || code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH) error.code = kLetterRefused;
    return error;
}

/// Whether it was new.
Result<bool> store_letter(Handle& handle, const NewLetter& letter, std::string_view id, std::string_view now) {
    const Record& record = letter.record;
    const Provenance& from = letter.provenance;
    // None where the record has no topic: the index of places holds only letters that have one.
    const auto of_record = [&](auto value) { return record.topic.empty() ? std::nullopt : std::optional(value); };
    auto stored =
        handle.change(letters::sql::store_letter, letter.id.empty() ? id : letter.id, now,
                      of_record(std::string_view(record.topic)), of_record(record.partition), of_record(record.offset),
                      record.timestamp_ms, record_time_name(record.timestamp_type), client::Blob{record.key},
                      client::Blob{record.value}, record_headers_json(record.headers), letter.payload, letter.truncated,
                      from.original_topic, from.original_partition, from.original_offset, from.error_message,
                      from.error_class, from.stack_trace, from.producer, letter.source);
    if (!stored) return Failure(refusal_of(handle, std::move(stored.error())));
    return *stored == 1;
}

/// A retry whose process is gone is in doubt before anybody has recorded that.
void show_doubt(Letter& letter) {
    letter.in_doubt = letter.in_doubt || letter.unfinished;
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

/// One more than the page has: whether there is a next one.
std::int64_t rows_of(const LetterQuery& query) {
    return std::int64_t{query.limit} + 1;
}

std::int64_t offset_of(const LetterQuery& query) {
    return query.after ? 0 : query.offset;
}

/// Runs a statement of letter_query.h with the parameters that it numbers.
template <typename Read>
Result<void> run_query(Handle& handle, const std::string& sql, const LetterQuery& query, std::int64_t at_most,
                       Read read) {
    using Text = std::optional<std::string>;
    const auto time = [](const std::optional<WallTime>& at) { return at ? Text(letter_time(*at)) : std::nullopt; };
    const LetterCursor after = query.after.value_or(LetterCursor{});
    return handle.each(sql, read, query.topic, query.status ? std::optional(to_string(*query.status)) : std::nullopt,
                       query.source, query.error_class, time(query.from), time(query.until),
                       query.text ? Text(ascii_lower(*query.text)) : std::nullopt, client::Blob{query.key},
                       letter_time(after.created_at), after.id, rows_of(query), offset_of(query), at_most);
}

/// Runs the statement `change` where `may` allows it for the letter, and audits it as `step` says. Answers the letter
/// as it was before.
Result<std::optional<Letter>> change_by_hand(File& file, std::string_view id, bool (*may)(const StoredLetter&),
                                             std::string_view change, LetterStep step) {
    TRY(check_upkeep_name("actor", step.actor));
    return in_transaction(file, Durability::full, [&](Handle& handle) -> Result<std::optional<Letter>> {
        TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
        if (!stored) return std::nullopt;
        Letter& letter = stored->detail.letter;
        if (may(*stored)) {
            TRY(handle.run(change, letter.id));
            step.status_from = to_string(letter.status);
            TRY(audit_letter(handle, letter.id, step));
        }
        return std::move(letter);
    });
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
            TRY_ASSIGN(auto stored, store_letter(handle, letters[i], letter_id(now, i, random), now_text));
            fresh += stored ? 1 : 0;
        }
        return fresh;
    });
}

Result<LetterPage> SqliteDeadLetters::list(const LetterQuery& query) {
    TRY(check_letter_query(query));
    // No index has text or key: such a listing reads every letter, and on the common connection all lanes and requests
    // would wait for it.
    TRY_ASSIGN(auto handle, query.text || query.key ? file_.searcher() : file_.reader());
    // Page and total of one moment.
    TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));
    LetterPage page;
    std::int64_t long_payload_bytes = 0;
    const std::int64_t rows = rows_of(query) + offset_of(query);
    TRY(run_query(*handle, letter_page_sql(query), query, rows, [&](const SqliteStatement& row) {
        Letter& letter = page.letters.emplace_back(letter_at(row));
        drop_unreadable_payload(letter);
        show_doubt(letter);
        letter.provenance.stack_trace.reset();
        leave_out_long_payload(letter, long_payload_bytes);
    }));
    page.has_next = std::ssize(page.letters) == rows_of(query);
    if (page.has_next) page.letters.pop_back();
    TRY(run_query(*handle, letter_total_sql(query), query, kMaxCounted + 1,
                  [&](const SqliteStatement& row) { set_total(page, query, row.get<std::int64_t>()); }));
    return page;
}

Result<std::optional<LetterDetail>> SqliteDeadLetters::find(std::string_view id) {
    TRY_ASSIGN(auto handle, file_.reader());
    TRY_ASSIGN(auto stored, stored_letter(*handle, canonical_uuid(id)));
    if (!stored) return std::nullopt;
    show_doubt(stored->detail.letter);
    return std::move(stored->detail);
}

Result<std::vector<LetterAudit>> SqliteDeadLetters::audit(std::string_view id, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::letter_audit, &audit_line_at<SqliteStatement>, canonical_uuid(id), limit);
}

Result<std::vector<TopicCounts>> SqliteDeadLetters::topics() {
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::topics, &topic_counts_at<SqliteStatement>);
}

Result<std::vector<Destination>> SqliteDeadLetters::destinations(std::string_view topic, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::destinations, &destination_at<SqliteStatement>, topic, limit);
}

Result<std::optional<Letter>> SqliteDeadLetters::mark_dead(std::string_view id, std::string_view actor) {
    const auto may = [](const StoredLetter& stored) {
        const LetterStatus status = stored.detail.letter.status;
        return (status == LetterStatus::pending || status == LetterStatus::retrying) && !stored.retry_is_live;
    };
    return change_by_hand(file_, id, may, letters::sql::mark_dead, {"dead", actor, {}, "DEAD"});
}

Result<std::optional<Letter>> SqliteDeadLetters::revive(std::string_view id, std::string_view actor) {
    const auto may = [](const StoredLetter& stored) {
        return stored.detail.letter.status == LetterStatus::dead && !is_order(stored.detail.letter);
    };
    return change_by_hand(file_, id, may, letters::sql::revive, {"revived", actor, {}, "PENDING"});
}

Result<Removal> SqliteDeadLetters::remove(std::string_view id, std::string_view actor) {
    TRY(check_upkeep_name("actor", actor));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Removal> {
        TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
        if (!stored) return Removal::unknown;
        if (stored->retry_is_live) return Removal::under_way;
        const Letter& letter = stored->detail.letter;
        TRY(handle.run(letters::sql::remove_letter, letter.id));
        TRY(audit_letter(handle, letter.id, {"deleted", actor, to_string(letter.status)}));
        return Removal::removed;
    });
}

Result<std::int64_t> SqliteDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                              std::string_view actor) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    TRY(check_upkeep_name("actor", actor));
    // A power cut that forgets a purge costs nothing: the next one finds the letters again.
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        TRY_ASSIGN(const auto gone,
                   handle.values<std::string>(letters::sql::purge, to_string(status), client::time_ago(age), limit));
        for (const std::string& id : gone) {
            TRY(audit_letter(handle, id, {"purged", actor, to_string(status)}));
        }
        return static_cast<std::int64_t>(gone.size());
    });
}

Result<std::int64_t> SqliteDeadLetters::purge_history(Duration age, std::int32_t limit) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        const std::string ago = client::time_ago(age);
        // What the redrives leave of the limit is for the lines, which are many more.
        TRY_ASSIGN(const auto redrives, handle.change(letters::sql::purge_redrives, ago, limit));
        TRY_ASSIGN(const auto lines, handle.change(letters::sql::purge_audit, ago, limit - redrives));
        return redrives + lines;
    });
}

}  // namespace deliverd::store::sqlite
