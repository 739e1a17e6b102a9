// Redrives as rows of SQLite. All inside a transaction of the caller's, but for abandoned_rows().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

struct StoredRedrive {
    Redrive redrive;
    std::string owner;
    bool is_live = false;    // the owner's lease has not run out
    std::string started_at;  // as the tables have times
};

[[nodiscard]] Result<std::optional<StoredRedrive>> stored_redrive(Handle& handle, std::string_view topic);
[[nodiscard]] Result<std::vector<Redrive>> abandoned_rows(Handle& handle);

struct RedriveOwner {
    std::string_view topic;
    std::string_view owner;
    std::string_view actor;
    Duration lease{};
};
/// Begins one anew, up to the newest letter that there is.
[[nodiscard]] Result<void> start_redrive(Handle& handle, const RedriveOwner& who);
/// Makes it `who`'s, from the first letter on. What the owner before had begun and not ended is free at once.
[[nodiscard]] Result<void> take_redrive(Handle& handle, const StoredRedrive& found, const RedriveOwner& who);
[[nodiscard]] Result<void> renew_redrive(Handle& handle, const RedriveOwner& who);

/// Letters that can be retried, behind the position, oldest first; as many as the page has, whatever their bytes.
[[nodiscard]] Result<std::vector<LetterCursor>> redrive_candidates(Handle& handle, const StoredRedrive& found,
                                                                   const RedrivePage& page);
[[nodiscard]] Result<void> move_redrive(Handle& handle, std::string_view topic, const LetterCursor& position);

struct RedriveCounts {
    std::int64_t published = 0;
    std::int64_t failed = 0;
    std::int64_t in_doubt = 0;
    std::int64_t taken_over = 0;
};
/// Only while it is the owner's; otherwise nothing changes.
[[nodiscard]] Result<void> add_to_redrive(Handle& handle, std::string_view topic, std::string_view owner,
                                          const RedriveCounts& counts);
/// Its lease has run out from now on; only where it is the owner's.
[[nodiscard]] Result<void> give_up_redrive(Handle& handle, std::string_view topic, std::string_view owner);
[[nodiscard]] Result<void> finish_redrive(Handle& handle, std::string_view topic);

}  // namespace deliverd::store::sqlite
