#include "store/sqlite/letters/dead_letters.h"

#include <fmt/format.h>

#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "base/uuid.h"
#include "client/sqlite_rows.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"
#include "store/sqlite/letters/letter_query.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

constexpr std::string_view kStore =
    "insert into dlq_messages (id, created_at, updated_at, source_topic, source_partition, source_offset,"
    " record_timestamp_ms, record_timestamp_type, record_key, record_value, record_headers, payload, truncated,"
    " original_topic, original_partition, original_offset, error_message, error_class, stack_trace, producer, source)"
    " values (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)"
    " on conflict (source_topic, source_partition, source_offset, record_timestamp_ms) where source_topic is not null"
    " do nothing on conflict (id) do nothing";

/// 1 letter, 2 how many at most.
constexpr std::string_view kAudit =
    "select at, action, actor, status_from, status_to, detail from dlq_audit where message_id = ?1 order by id"
    " limit ?2";

constexpr std::string_view kTopics =
    "select c.topic, c.source, sum(iif(c.status = 'PENDING', c.letters, 0)),"
    " sum(iif(c.status = 'RETRYING', c.letters, 0)), sum(iif(c.status = 'RESOLVED', c.letters, 0)),"
    " sum(iif(c.status = 'DEAD', c.letters, 0)),"
    " max(coalesce((select m.created_at from dlq_messages as m indexed by dlq_messages_source_topic"
    " where m.source_topic = c.topic and m.source = c.source order by m.created_at desc limit 1), ''),"
    " coalesce((select m.created_at from dlq_messages as m indexed by dlq_messages_elsewhere"
    " where m.source_topic is null and m.original_topic = c.topic and m.source = c.source"
    " order by m.created_at desc limit 1), ''))"
    " from dlq_counts as c group by c.topic, c.source order by c.topic, c.source";

/// 1 topic, 2 how many at most.
constexpr std::string_view kDestinations =
    "select original_topic, source, sum(letters) from dlq_counts where (topic = ?1 or original_topic = ?1)"
    " and status in ('PENDING', 'RETRYING') group by original_topic, source"
    " order by 3 desc, original_topic, source limit ?2";

/// 1 letter.
constexpr std::string_view kMarkDead =
    "update dlq_messages set status = 'DEAD', retry_owner = null,"
    " retry_expires_at = null, updated_at = " DELIVERD_NOW " where id = ?1";

/// 1 letter.
constexpr std::string_view kRevive =
    "update dlq_messages set status = 'PENDING', retry_count = 0, updated_at = " DELIVERD_NOW " where id = ?1";

/// 1 status, 2 age as a modifier, 3 how many at most. What is being retried has changed its time a moment ago, or its
/// lease is longer than the age.
constexpr std::string_view kPurge =
    "delete from dlq_messages where id in (select id from dlq_messages indexed by dlq_messages_purge where status = ?1"
    " and updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2)"
    " and (retry_owner is null or retry_expires_at < " DELIVERD_NOW ") order by updated_at limit ?3) returning id";

/// 1 age as a modifier, 2 how many at most.
constexpr std::string_view kPurgeRedrives =
    "delete from deliverd_redrives where topic in (select topic from deliverd_redrives where finished"
    " and (updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)"
    " or up_to_id = '00000000-0000-0000-0000-000000000000') limit ?2)";

/// The same. Lines are numbered as they are written: the oldest have the lowest numbers.
constexpr std::string_view kPurgeAudit =
    "delete from dlq_audit where id in (select id from dlq_audit order by id limit ?2)"
    " and at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)";

#undef DELIVERD_NOW

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
    auto statement = handle.prepared(kStore);
    if (!statement) return Failure(std::move(statement.error()));
    const Record& record = letter.record;
    const Provenance& from = letter.provenance;
    const std::string headers = record_headers_json(record.headers);
    SqliteStatement& row = **statement;
    row.bind(1, letter.id.empty() ? id : std::string_view(letter.id)).bind(2, now);
    row.bind_null(3).bind_null(4).bind_null(5).bind(20, std::string_view(letter.source));
    if (!record.topic.empty()) {
        row.bind(3, std::string_view(record.topic)).bind(4, std::int64_t{record.partition}).bind(5, record.offset);
    }
    row.bind(6, record.timestamp_ms).bind(7, name_of(record.timestamp_type));
    row.bind_blob(8, record.key).bind_blob(9, record.value).bind(10, std::string_view(headers));
    row.bind(11, letter.payload).bind(12, std::int64_t{letter.truncated ? 1 : 0});
    row.bind(13, std::string_view(from.original_topic)).bind_null(14).bind_null(15);
    if (from.original_partition) row.bind(14, std::int64_t{*from.original_partition});
    if (from.original_offset) row.bind(15, *from.original_offset);
    row.bind(16, std::string_view(from.error_message)).bind(17, from.error_class).bind(18, from.stack_trace);
    auto done = row.bind(19, from.producer).run();
    if (!done) return Failure(refusal_of(handle, std::move(done.error())));
    return handle.changes() == 1;
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
        if (auto ok = check_letter(letter); !ok) return Failure(std::move(ok.error()));
    }
    if (letters.empty()) return 0;
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        SystemRandom random;
        const WallTime now = SystemClock().wall_now();
        const std::string now_text = rfc3339_millis(now);
        std::int64_t fresh = 0;
        for (std::size_t i = 0; i < letters.size(); ++i) {
            auto stored = store_letter(handle, letters[i], ordered_id(now, i, random), now_text);
            if (!stored) return Failure(std::move(stored.error()));
            fresh += *stored ? 1 : 0;
        }
        return fresh;
    });
}

Result<LetterPage> SqliteDeadLetters::list(const LetterQuery& query) {
    if (auto ok = check_letter_query(query); !ok) return Failure(std::move(ok.error()));
    auto handle = query.text || query.key ? file_.searcher() : file_.reader();  // no index has either
    if (!handle) return Failure(std::move(handle.error()));
    auto moment = Transaction::begin_reading(**handle);
    if (!moment) return Failure(std::move(moment.error()));
    const LetterBinding binding(query);
    const std::int64_t offset = query.after ? 0 : query.offset;
    const std::int64_t rows = std::int64_t{query.limit} + 1;

    auto statement = (*handle)->prepared(letter_page_sql(query));
    if (!statement) return Failure(std::move(statement.error()));
    binding.bind(**statement, query);
    (*statement)->bind(11, rows).bind(12, offset).bind(13, rows + offset);
    LetterPage page;
    std::int64_t long_payload_bytes = 0;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        page.letters.push_back(letter_at(row));
        page.letters.back().provenance.stack_trace.reset();
        leave_out_long_payload(page.letters.back(), long_payload_bytes);
    });
    if (!read) return Failure(std::move(read.error()));
    page.has_next = page.letters.size() == static_cast<std::size_t>(rows);
    if (page.has_next) page.letters.pop_back();

    auto total = (*handle)->prepared(letter_total_sql(query));
    if (!total) return Failure(std::move(total.error()));
    binding.bind(**total, query);
    (*total)->bind(13, kMaxCounted + 1);
    read = each_row(**total, [&](const SqliteStatement& row) { page.total = row.integer(0); });
    if (!read) return Failure(std::move(read.error()));
    page.total_is_minimum = !counted(query) && page.total > kMaxCounted;
    if (page.total_is_minimum) page.total = kMaxCounted;
    return page;
}

Result<std::optional<LetterDetail>> SqliteDeadLetters::find(std::string_view id) {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto stored = stored_letter(**handle, canonical_uuid(id));
    if (!stored) return Failure(std::move(stored.error()));
    if (!*stored) return std::nullopt;
    // Begun by somebody who is gone: nobody knows how it ended.
    if ((*stored)->detail.letter.unfinished) (*stored)->detail.letter.in_doubt = true;
    return std::move((*stored)->detail);
}

Result<std::vector<LetterAudit>> SqliteDeadLetters::audit(std::string_view id, std::int32_t limit) {
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(kAudit);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string wanted = canonical_uuid(id);
    (*statement)->bind(1, std::string_view(wanted)).bind(2, std::int64_t{limit});
    std::vector<LetterAudit> lines;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        lines.push_back({parse_rfc3339(row.text(0)).value_or(WallTime{}), std::string(row.text(1)),
                         std::string(row.text(2)), row.optional_text(3), row.optional_text(4), row.optional_text(5)});
    });
    if (!read) return Failure(std::move(read.error()));
    return lines;
}

Result<std::vector<TopicCounts>> SqliteDeadLetters::topics() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(kTopics);
    if (!statement) return Failure(std::move(statement.error()));
    std::vector<TopicCounts> topics;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        topics.push_back({std::string(row.text(0)), std::string(row.text(1)), row.integer(2), row.integer(3),
                          row.integer(4), row.integer(5), parse_rfc3339(row.text(6)).value_or(WallTime{})});
    });
    if (!read) return Failure(std::move(read.error()));
    return topics;
}

Result<std::vector<Destination>> SqliteDeadLetters::destinations(std::string_view topic, std::int32_t limit) {
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(kDestinations);
    if (!statement) return Failure(std::move(statement.error()));
    std::vector<Destination> found;
    (*statement)->bind(1, topic).bind(2, std::int64_t{limit});
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        found.push_back({std::string(row.text(0)), std::string(row.text(1)), row.integer(2)});
    });
    if (!read) return Failure(std::move(read.error()));
    return found;
}

Result<std::optional<Letter>> SqliteDeadLetters::mark_dead(std::string_view id, std::string_view actor) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Letter>> {
        auto stored = stored_letter(handle, canonical_uuid(id));
        if (!stored) return Failure(std::move(stored.error()));
        if (!*stored) return std::nullopt;
        const Letter& letter = (*stored)->detail.letter;
        const bool open = letter.status == LetterStatus::pending || letter.status == LetterStatus::retrying;
        if (!open || (*stored)->retry_is_live) return letter;
        auto statement = handle.prepared(kMarkDead);
        if (!statement) return Failure(std::move(statement.error()));
        auto done = (*statement)->bind(1, std::string_view(letter.id)).run();
        if (!done) return Failure(std::move(done.error()));
        auto noted = audit_letter(handle, letter.id, {"dead", actor, std::string(to_string(letter.status)), "DEAD"});
        if (!noted) return Failure(std::move(noted.error()));
        return letter;
    });
}

Result<std::optional<Letter>> SqliteDeadLetters::revive(std::string_view id, std::string_view actor) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Letter>> {
        auto stored = stored_letter(handle, canonical_uuid(id));
        if (!stored) return Failure(std::move(stored.error()));
        if (!*stored) return std::nullopt;
        const Letter& letter = (*stored)->detail.letter;
        if (letter.status != LetterStatus::dead || is_order(letter)) return letter;
        auto statement = handle.prepared(kRevive);
        if (!statement) return Failure(std::move(statement.error()));
        auto done = (*statement)->bind(1, std::string_view(letter.id)).run();
        if (!done) return Failure(std::move(done.error()));
        if (auto noted = audit_letter(handle, letter.id, {"revived", actor, "DEAD", "PENDING"}); !noted) {
            return Failure(std::move(noted.error()));
        }
        return letter;
    });
}

Result<Removal> SqliteDeadLetters::remove(std::string_view id, std::string_view actor) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Removal> {
        auto stored = stored_letter(handle, canonical_uuid(id));
        if (!stored) return Failure(std::move(stored.error()));
        if (!*stored) return Removal::unknown;
        if ((*stored)->retry_is_live) return Removal::under_way;
        const Letter& letter = (*stored)->detail.letter;
        auto statement = handle.prepared("delete from dlq_messages where id = ?1");
        if (!statement) return Failure(std::move(statement.error()));
        auto done = (*statement)->bind(1, std::string_view(letter.id)).run();
        if (!done) return Failure(std::move(done.error()));
        auto noted = audit_letter(handle, letter.id, {"deleted", actor, std::string(to_string(letter.status))});
        if (!noted) return Failure(std::move(noted.error()));
        return Removal::removed;
    });
}

Result<std::int64_t> SqliteDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                              std::string_view actor) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        auto statement = handle.prepared(kPurge);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string ago = client::lease_modifier(to_seconds(age));
        (*statement)->bind(1, to_string(status)).bind(2, std::string_view(ago)).bind(3, std::int64_t{limit});
        std::vector<std::string> gone;
        auto done = each_row(**statement, [&](const SqliteStatement& row) { gone.emplace_back(row.text(0)); });
        if (!done) return Failure(std::move(done.error()));
        for (const std::string& id : gone) {
            auto noted = audit_letter(handle, id, {"purged", actor, std::string(to_string(status))});
            if (!noted) return Failure(std::move(noted.error()));
        }
        return static_cast<std::int64_t>(gone.size());
    });
}

Result<std::int64_t> SqliteDeadLetters::purge_history(Duration age, std::int32_t limit) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        const std::string ago = client::lease_modifier(to_seconds(age));
        std::int64_t gone = 0;
        for (const std::string_view sql : {kPurgeRedrives, kPurgeAudit}) {
            auto statement = handle.prepared(sql);
            if (!statement) return Failure(std::move(statement.error()));
            auto done = (*statement)->bind(1, std::string_view(ago)).bind(2, limit - gone).run();
            if (!done) return Failure(std::move(done.error()));
            gone += handle.changes();
        }
        return gone;
    });
}

}  // namespace deliverd::store::sqlite
