#include "store/sqlite/letters/redrive_rows.h"

#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "base/try.h"
#include "client/sql_values.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// Before every letter.
constexpr std::string_view kLeastId = "00000000-0000-0000-0000-000000000000";
constexpr WallTime kLeastTime{};

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
    std::optional<std::string> position_id;
    WallTime position_at{};
    row.read(redrive.topic, redrive.actor, position_at, position_id, redrive.up_to.created_at, redrive.up_to.id,
             redrive.published, redrive.failed, redrive.in_doubt, redrive.taken_over, redrive.finished, found.owner,
             found.is_live, found.started_at);
    if (position_id) redrive.position = LetterCursor{position_at, std::move(*position_id)};
    return found;
}

LetterCursor cursor_at(const SqliteStatement& row) {
    return {row.get<WallTime>(0), row.get<std::string>(1)};
}

}  // namespace

Result<std::optional<StoredRedrive>> stored_redrive(Handle& handle, std::string_view topic) {
    return handle.one(letters::sql::find_redrive, &redrive_at, topic);
}

Result<std::vector<Redrive>> abandoned_rows(Handle& handle) {
    return handle.all(letters::sql::abandoned_redrives,
                      [](const SqliteStatement& row) { return redrive_at(row).redrive; });
}

Result<void> start_redrive(Handle& handle, const RedriveOwner& who) {
    TRY_ASSIGN(const auto newest, handle.one(letters::sql::newest_letter, &cursor_at, who.topic));
    const LetterCursor up_to = newest.value_or(LetterCursor{kLeastTime, std::string(kLeastId)});
    return handle.run(letters::sql::start_redrive, who.topic, who.actor, who.owner, client::time_ahead(who.lease),
                      letter_time(up_to.created_at), up_to.id);
}

Result<void> take_redrive(Handle& handle, const StoredRedrive& found, const RedriveOwner& who) {
    TRY(handle.run(letters::sql::free_letters, found.owner, who.topic));
    TRY(handle.run(letters::sql::restart_redrive, who.topic));
    return renew_redrive(handle, who);
}

Result<void> renew_redrive(Handle& handle, const RedriveOwner& who) {
    return handle.run(letters::sql::own_redrive, who.topic, who.owner, client::time_ahead(who.lease));
}

Result<std::vector<LetterCursor>> redrive_candidates(Handle& handle, const StoredRedrive& found,
                                                     const RedrivePage& page) {
    const Redrive& redrive = found.redrive;
    const LetterCursor from = redrive.position.value_or(LetterCursor{kLeastTime, std::string(kLeastId)});
    return handle.all(letters::sql::redrive_candidates, &cursor_at, redrive.topic, letter_time(from.created_at),
                      from.id, letter_time(redrive.up_to.created_at), redrive.up_to.id, found.started_at, page.letters,
                      json_array(page.left_out_topics));
}

Result<void> move_redrive(Handle& handle, std::string_view topic, const LetterCursor& position) {
    return handle.run(letters::sql::move_redrive, topic, letter_time(position.created_at), position.id);
}

Result<void> add_to_redrive(Handle& handle, std::string_view topic, std::string_view owner,
                            const RedriveCounts& counts) {
    return handle.run(letters::sql::add_to_redrive, topic, owner, counts.published, counts.failed, counts.in_doubt,
                      counts.taken_over);
}

Result<void> give_up_redrive(Handle& handle, std::string_view topic, std::string_view owner) {
    return handle.run(letters::sql::give_up_redrive, topic, owner);
}

Result<void> finish_redrive(Handle& handle, std::string_view topic) {
    return handle.run(letters::sql::finish_redrive, topic);
}

}  // namespace deliverd::store::sqlite
