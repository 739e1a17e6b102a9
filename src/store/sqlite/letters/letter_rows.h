// Dead letters as rows of SQLite: reading one, changing one's state, and its audit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

[[nodiscard]] Letter letter_at(const SqliteStatement& row);

/// A letter and whose retry of it is under way.
struct StoredLetter {
    LetterDetail detail;
    std::optional<std::string> retry_owner;
    bool retry_is_live = false;  // the owner's lease has not run out
};

/// None when there is none.
[[nodiscard]] Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id);

struct LetterStep {
    std::string_view action;
    std::string_view actor;
    std::optional<std::string> status_from{};
    std::optional<std::string> status_to{};
    std::optional<std::string> detail{};
};
[[nodiscard]] Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step);

/// One line that fits: errors of receivers and details can be long, and hold anything.
[[nodiscard]] std::string letter_note(std::string_view text);

/// Times as the tables have them; what is finer than a millisecond is rounded up, so that comparing with what is stored
/// stays right.
[[nodiscard]] std::string letter_time(WallTime time);

}  // namespace deliverd::store::sqlite
