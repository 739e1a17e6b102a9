// Which rows this lane holds, and since when. The fetcher, the sender, the settler and the renewing thread share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "store/row_queue.h"

namespace deliverd::lane {

enum class Hold {
    fresh,  // ours for some time yet
    stale,  // too close to its end to begin a send: wait for the renewal
    lost,   // the database says it is no longer ours
};

/// Thread-safe. Never blocks beyond its own mutex. Instants are taken *before* the database call that started or
/// renewed the lease, so that a lease never ends earlier than the book assumes.
///
/// A claim may find a row before the lane is done with the copy that it has: our lease ran out, or the row was settled,
/// came due again and was claimed before the settle's answer arrived. Then the book keeps the newer copy, and the row
/// stays in the book, until the older copy has ended: the row is neither sent twice at once nor forgotten.
class LeaseBook {
public:
    explicit LeaseBook(Duration lease) : lease_(lease) {}

    /// Notes a claimed row as held. False when it was held before: then its lease begins anew, and `row` was moved from
    /// as the newer copy, replacing an earlier newer copy.
    bool add(store::Claimed& row, Instant since);
    /// The newer copy, if there is one, to be used instead of one that was not sent yet: it has the right count.
    [[nodiscard]] std::optional<store::Claimed> take_newer(std::int64_t id);

    /// The lane is done with its copy of a row. If there is a newer copy, the row stays held, that copy is the next one
    /// for take_claimed_again(), and the answer is true; it is `stale` until a renewal that begins after `now` has
    /// shown that what was settled in the meantime did not end that claim too. A newer copy with `ended_failures` did
    /// end: the settlement that took effect at this count was for it as well.
    bool end(std::int64_t id, std::optional<std::int32_t> ended_failures, Instant now);
    /// At most `most` newer copies whose older ones have ended, in that order.
    [[nodiscard]] std::vector<store::Claimed> take_claimed_again(std::size_t most);
    /// Forgets rows with all their copies.
    void remove(std::span<const std::int64_t> ids);

    /// Held rows whose lease is older than a third of its length, in order of their ids.
    [[nodiscard]] std::vector<std::int64_t> due_for_renewal(Instant now) const;
    /// When the next one will be; `now` plus a third of a lease when nothing is held.
    [[nodiscard]] Instant next_renewal(Instant now) const;
    /// The database answered a renewal that began at `since`.
    void renewed(std::span<const std::int64_t> renewed, std::span<const std::int64_t> lost, Instant since);

    [[nodiscard]] Hold look(std::int64_t id, Instant now) const;
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] std::size_t bytes() const;  // of all rows held

private:
    struct Entry {
        Instant since;
        std::size_t bytes = 0;  // of the copy in the lane
        bool lost = false;
        bool in_doubt = false;  // the next renewal shows whether it is ours
        std::optional<store::Claimed> newer;
    };
    [[nodiscard]] bool is_due(const Entry& entry, Instant now) const;
    void drop(std::unordered_map<std::int64_t, Entry>::iterator entry) REQUIRES(mutex_);

    const Duration lease_;
    mutable Mutex mutex_;
    std::unordered_map<std::int64_t, Entry> held_ GUARDED_BY(mutex_);
    std::deque<store::Claimed> claimed_again_ GUARDED_BY(mutex_);  // newer copies whose older ones have ended
    std::size_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace deliverd::lane
