#include "store/sqlite/letters/letter_rows.h"

#include <chrono>

#include "base/text.h"
#include "base/try.h"
#include "store/letter_columns.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

StoredLetter stored_letter_at(const SqliteStatement& row) {
    StoredLetter stored{detail_at(row), {}};
    row.read_from(kDetailColumns, stored.retry_owner, stored.retry_is_live);
    drop_unreadable_payload(stored.detail.letter);
    return stored;
}

}  // namespace

Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id) {
    return handle.one(letters::sql::find_letter, &stored_letter_at, id);
}

void drop_unreadable_payload(Letter& letter) {
    if (letter.payload && find_invalid_utf8(*letter.payload)) letter.payload.reset();
}

Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step) {
    return handle.run(letters::sql::audit_letter, id, step.action, step.actor, step.status_from, step.status_to,
                      step.detail);
}

std::string letter_time(WallTime time) {
    return rfc3339_millis(std::chrono::ceil<std::chrono::milliseconds>(time));
}

}  // namespace deliverd::store::sqlite
