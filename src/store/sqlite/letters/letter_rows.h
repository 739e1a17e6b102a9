// Dead letters as rows of SQLite: reading one, beginning its retry, and its audit. Inside a transaction of the
// caller's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// A letter, and which owner's retry of it has begun and not ended.
struct StoredLetter {
    LetterDetail detail;
    std::optional<std::string> retry_owner;
    bool retry_is_live = false;  // the owner's lease has not run out
};

/// None when there is none.
[[nodiscard]] Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id);

/// Drops a payload that is not UTF-8. A row of a lane may hold any bytes, and so may its letter; they are no JSON.
void drop_unreadable_payload(Letter& letter);

struct LetterStep {
    std::string_view action;
    std::string_view actor;
    std::optional<std::string_view> status_from{};
    std::optional<std::string_view> status_to{};
    std::optional<std::string_view> detail{};
};
[[nodiscard]] Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step);

/// Begins a retry, or resumes one whose process died, which does not count again. `redrive_began` is the start time of
/// the redrive it belongs to, empty if none: the retry's time is then no earlier, and only a resumed one is audited.
[[nodiscard]] Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                                std::string_view redrive_began);

/// Times as the tables have them; what is finer than a millisecond is rounded up, so that comparing with what is stored
/// stays right.
[[nodiscard]] std::string letter_time(WallTime time);

}  // namespace deliverd::store::sqlite
