#include "store/sqlite/letters/redrive_rows.h"

#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/sqlite/letters/letter_rows.h"

namespace deliverd::store::sqlite {
namespace {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define DELIVERD_NOW_AND(modifier) "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', " modifier ")"
#define DELIVERD_REDRIVE                                                                                    \
    "select topic, actor, position_created_at, position_id, up_to_created_at, up_to_id, published, failed," \
    " in_doubt, taken_over, finished, owner, expires_at > " DELIVERD_NOW ", started_at from deliverd_redrives"
/// Both ranges of a topic, as in letter_query.cc.
#define DELIVERD_OF_TOPIC(columns, rest)                                           \
    "select * from (select " columns                                               \
    " from dlq_messages as m indexed by dlq_messages_source_topic"                 \
    " where m.source_topic = ?1" rest ") union all select * from (select " columns \
    " from dlq_messages as m indexed"                                              \
    " by dlq_messages_original_topic where m.original_topic = ?1 and m.source_topic is not ?1" rest ")"

/// 1 topic.
constexpr std::string_view kFind = DELIVERD_REDRIVE " where topic = ?1";
constexpr std::string_view kAbandoned =
    DELIVERD_REDRIVE " where not finished and expires_at <= " DELIVERD_NOW " order by topic";
constexpr std::string_view kNewest =
    "select created_at, id from (" DELIVERD_OF_TOPIC("m.created_at, m.id",
                                                     " order by m.created_at desc, m.id desc limit 1") ")"
    " order by created_at desc, id desc limit 1";

/// 1 topic, 2 actor, 3 owner, 4 the lease as a modifier, 5 and 6 the newest letter. Begins with the next millisecond:
/// what was tried in this one was tried before.
constexpr std::string_view kStart =
    "insert into deliverd_redrives (topic, actor, owner, expires_at, up_to_created_at, up_to_id, started_at)"
    " values (?1, ?2, ?3, " DELIVERD_NOW_AND("?4") ", ?5, ?6, " DELIVERD_NOW_AND("'+0.001 seconds'") ") on conflict (topic) do update set"
    " actor = excluded.actor, owner = excluded.owner, expires_at = excluded.expires_at, position_created_at = null,"
    " position_id = null, up_to_created_at = excluded.up_to_created_at, up_to_id = excluded.up_to_id, published = 0,"
    " failed = 0, in_doubt = 0, taken_over = 0, finished = 0, started_at = excluded.started_at,"
    " updated_at = excluded.updated_at";

/// 1 topic, 2 owner, 3 the lease as a modifier. A lease is never cut short by it.
constexpr std::string_view kOwn =
    "update deliverd_redrives set owner = ?2, expires_at = iif(owner = ?2, max(expires_at, " DELIVERD_NOW_AND(
        "?3") "), " DELIVERD_NOW_AND("?3") "), updated_at = " DELIVERD_NOW " where topic = ?1";

/// 1 owner before, 2 topic. In the past, since a lease runs out only after its last millisecond.
constexpr std::string_view kFree =
    "update dlq_messages indexed by dlq_messages_retries set retry_expires_at = " DELIVERD_NOW_AND(
        "'-1 seconds'") " where retry_owner = ?1 and (source_topic = ?2 or original_topic = ?2)";

/// 1 topic.
constexpr std::string_view kStartOver =
    "update deliverd_redrives set position_created_at = null, position_id = null where topic = ?1";

/// 1 topic, 2 and 3 the position, 4 and 5 the last one, 6 when the redrive began, 7 limit, 8 the topics that
/// are left out. What it has tried already is
/// not tried again, though a new owner goes over it once more.
constexpr std::string_view kCandidates =
    "select created_at, id from (" DELIVERD_OF_TOPIC(
        "m.created_at, m.id",
        " and (m.created_at, m.id) > (?2, ?3) and (m.created_at, m.id) <= (?4, ?5)"
        " and m.status in ('PENDING', 'RETRYING') and (m.lane is null or (m.outbox <> 'orders' and m.outbox_row_id is not null))"
        " and not (m.source = 'kafka' and m.original_topic in (select value from json_each(?8))) and iif(m.retry_owner is"
        " null, m.retry_count < m.max_retries and not (m.status = 'RETRYING' and ifnull(m.last_retry_at, '') >= ?6),"
        " m.retry_expires_at < " DELIVERD_NOW ") order by m.created_at, m.id limit ?7") ")"
    " order by created_at, id limit ?7";

/// 1 topic, 2 and 3 the position.
constexpr std::string_view kMove =
    "update deliverd_redrives set position_created_at = ?2, position_id = ?3,"
    " updated_at = " DELIVERD_NOW " where topic = ?1";

/// 1 topic, 2 owner, 3 published, 4 failed, 5 in doubt, 6 taken over.
constexpr std::string_view kAddRedrive =
    "update deliverd_redrives set published = published + ?3, failed = failed + ?4, in_doubt = in_doubt + ?5,"
    " taken_over = taken_over + ?6, updated_at = " DELIVERD_NOW " where topic = ?1 and owner = ?2 and not finished";

/// 1 topic.
constexpr std::string_view kFinish =
    "update deliverd_redrives set finished = 1, updated_at = " DELIVERD_NOW " where topic = ?1";

/// 1 topic, 2 owner. In the past, as in kFree.
constexpr std::string_view kGiveUpRedrive = "update deliverd_redrives set expires_at = " DELIVERD_NOW_AND(
    "'-1 seconds'") ", updated_at = " DELIVERD_NOW " where topic = ?1 and owner = ?2 and not finished";

#undef DELIVERD_OF_TOPIC
#undef DELIVERD_REDRIVE
#undef DELIVERD_NOW_AND
#undef DELIVERD_NOW

/// Before every letter.
constexpr std::string_view kLeastId = "00000000-0000-0000-0000-000000000000";
constexpr WallTime kLeastTime{};

WallTime time_of(std::string_view text) {
    return parse_rfc3339(text).value_or(WallTime{});
}

std::string json_array(std::span<const std::string> texts) {
    std::string out = "[";
    for (const std::string& text : texts) {
        if (out.size() > 1) out += ',';
        append_json_string(out, text);
    }
    return out + "]";
}

StoredRedrive redrive_at(const SqliteStatement& row) {
    StoredRedrive found;
    Redrive& redrive = found.redrive;
    redrive.topic = row.text(0);
    redrive.actor = row.text(1);
    if (!row.is_null(2)) redrive.position = LetterCursor{time_of(row.text(2)), std::string(row.text(3))};
    redrive.up_to = {time_of(row.text(4)), std::string(row.text(5))};
    redrive.published = row.integer(6);
    redrive.failed = row.integer(7);
    redrive.in_doubt = row.integer(8);
    redrive.taken_over = row.integer(9);
    redrive.finished = row.integer(10) != 0;
    found.owner = row.text(11);
    found.is_live = row.integer(12) != 0;
    found.started_at = row.text(13);
    return found;
}

}  // namespace

Result<std::optional<StoredRedrive>> stored_redrive(Handle& handle, std::string_view topic) {
    auto statement = handle.prepared(kFind);
    if (!statement) return Failure(std::move(statement.error()));
    std::optional<StoredRedrive> found;
    auto read = each_row((*statement)->bind(1, topic), [&](const SqliteStatement& row) { found = redrive_at(row); });
    if (!read) return Failure(std::move(read.error()));
    return found;
}

Result<std::vector<Redrive>> abandoned_rows(Handle& handle) {
    auto statement = handle.prepared(kAbandoned);
    if (!statement) return Failure(std::move(statement.error()));
    std::vector<Redrive> redrives;
    auto read = each_row(**statement, [&](const SqliteStatement& row) { redrives.push_back(redrive_at(row).redrive); });
    if (!read) return Failure(std::move(read.error()));
    return redrives;
}

Result<void> start_redrive(Handle& handle, const RedriveOwner& who) {
    auto newest = handle.prepared(kNewest);
    if (!newest) return Failure(std::move(newest.error()));
    LetterCursor up_to{kLeastTime, std::string(kLeastId)};
    auto read = each_row((*newest)->bind(1, who.topic),
                         [&](const SqliteStatement& row) { up_to = {time_of(row.text(0)), std::string(row.text(1))}; });
    if (!read) return read;
    auto start = handle.prepared(kStart);
    if (!start) return Failure(std::move(start.error()));
    const std::string lease = time_ahead(to_seconds(who.lease));
    const std::string time = letter_time(up_to.created_at);
    (*start)->bind(1, who.topic).bind(2, who.actor).bind(3, who.owner).bind(4, std::string_view(lease));
    return (*start)->bind(5, std::string_view(time)).bind(6, std::string_view(up_to.id)).run();
}

Result<void> take_redrive(Handle& handle, const StoredRedrive& found, const RedriveOwner& who) {
    auto free = handle.prepared(kFree);
    if (!free) return Failure(std::move(free.error()));
    auto freed = (*free)->bind(1, std::string_view(found.owner)).bind(2, who.topic).run();
    if (!freed) return freed;
    auto start_over = handle.prepared(kStartOver);
    if (!start_over) return Failure(std::move(start_over.error()));
    if (auto moved = (*start_over)->bind(1, who.topic).run(); !moved) return moved;
    return renew_redrive(handle, who);
}

Result<void> renew_redrive(Handle& handle, const RedriveOwner& who) {
    auto statement = handle.prepared(kOwn);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string lease = time_ahead(to_seconds(who.lease));
    return (*statement)->bind(1, who.topic).bind(2, who.owner).bind(3, std::string_view(lease)).run();
}

Result<std::vector<LetterCursor>> redrive_candidates(Handle& handle, const StoredRedrive& found,
                                                     const RedrivePage& page) {
    auto statement = handle.prepared(kCandidates);
    if (!statement) return Failure(std::move(statement.error()));
    const Redrive& redrive = found.redrive;
    const LetterCursor from = redrive.position.value_or(LetterCursor{kLeastTime, std::string(kLeastId)});
    const std::string from_time = letter_time(from.created_at);
    const std::string to_time = letter_time(redrive.up_to.created_at);
    (*statement)->bind(1, std::string_view(redrive.topic)).bind(2, std::string_view(from_time));
    (*statement)->bind(3, std::string_view(from.id)).bind(4, std::string_view(to_time));
    (*statement)->bind(5, std::string_view(redrive.up_to.id)).bind(6, std::string_view(found.started_at));
    const std::string left_out = json_array(page.left_out_topics);
    (*statement)->bind(7, std::int64_t{page.letters}).bind(8, std::string_view(left_out));
    std::vector<LetterCursor> letters;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        letters.push_back({time_of(row.text(0)), std::string(row.text(1))});
    });
    if (!read) return Failure(std::move(read.error()));
    return letters;
}

Result<void> move_redrive(Handle& handle, std::string_view topic, const LetterCursor& position) {
    auto statement = handle.prepared(kMove);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string time = letter_time(position.created_at);
    (*statement)->bind(1, topic).bind(2, std::string_view(time));
    return (*statement)->bind(3, std::string_view(position.id)).run();
}

Result<void> add_to_redrive(Handle& handle, std::string_view topic, std::string_view owner,
                            const RedriveCounts& counts) {
    auto statement = handle.prepared(kAddRedrive);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, topic).bind(2, owner).bind(3, counts.published).bind(4, counts.failed);
    return (*statement)->bind(5, counts.in_doubt).bind(6, counts.taken_over).run();
}

Result<void> give_up_redrive(Handle& handle, std::string_view topic, std::string_view owner) {
    auto statement = handle.prepared(kGiveUpRedrive);
    if (!statement) return Failure(std::move(statement.error()));
    return (*statement)->bind(1, topic).bind(2, owner).run();
}

Result<void> finish_redrive(Handle& handle, std::string_view topic) {
    auto statement = handle.prepared(kFinish);
    if (!statement) return Failure(std::move(statement.error()));
    return (*statement)->bind(1, topic).run();
}

}  // namespace deliverd::store::sqlite
