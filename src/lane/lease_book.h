// Which rows this lane holds, and since when: what the renewing thread, the fetcher and the sender share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "store/outbox.h"

namespace deliverd::lane {

enum class Hold {
    fresh,  // ours for some time yet
    stale,  // too close to its end to begin a send: wait for the renewal
    lost,   // the database says it is no longer ours
};

/// Thread-safe. Never blocks beyond its own mutex. Instants are taken *before* the database call that
/// started or renewed the lease, so that a lease never ends earlier than the book thinks.
///
/// A claim may find a row before the lane is done with the copy it has: our lease ran out, or the row was settled,
/// came due again and was claimed before the settle's answer arrived. Then the book keeps the newer copy, and the
/// row stays in the book, until the older one has ended: it is not sent twice at once, and not forgotten either.
class LeaseBook {
public:
    explicit LeaseBook(Duration lease);

    /// Notes a claimed row as held. False when it already was: then its lease begins anew, and `row` was taken as the
    /// newer copy, in place of one taken before.
    bool add(store::Claimed& row, Instant since);
    /// The newer copy, if there is one, to go on with instead of one that was not sent yet: it has the right count.
    [[nodiscard]] std::optional<store::Claimed> take_newer(std::int64_t id);

    /// The lane is done with its copy of a row. With a newer copy the row stays held, that copy is next for
    /// take_claimed_again(), and the answer is true; it is `stale` until a renewal that begins after `now` has shown
    /// that what was settled meanwhile did not end that claim too. A newer copy with `ended_failures` did end: the
    /// settlement that took effect at this count was its own.
    bool end(std::int64_t id, std::optional<std::int32_t> ended_failures, Instant now);
    /// At most `most` newer copies whose elders have ended, in that order.
    [[nodiscard]] std::vector<store::Claimed> take_claimed_again(std::size_t most);
    /// Forgets rows, with all copies.
    void remove(std::span<const std::int64_t> ids);

    /// Held rows whose lease is older than a third of its length, in order of their ids.
    [[nodiscard]] std::vector<std::int64_t> due_for_renewal(Instant now) const;
    /// When the next one will be; `now` plus a third of a lease when nothing is held.
    [[nodiscard]] Instant next_renewal(Instant now) const;
    /// What the database said to a renewal that began at `since`.
    void renewed(std::span<const std::int64_t> renewed, std::span<const std::int64_t> lost, Instant since);

    [[nodiscard]] Hold look(std::int64_t id, Instant now) const;
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] std::size_t bytes() const;  // of all rows held

private:
    struct Entry {
        Instant since;
        std::size_t bytes = 0;  // of the copy in the lane
        bool lost = false;
        bool in_doubt = false;  // whether it is ours is for the next renewal to say
        std::optional<store::Claimed> newer;
    };
    [[nodiscard]] bool is_due(const Entry& entry, Instant now) const;
    void drop(std::unordered_map<std::int64_t, Entry>::iterator entry);

    const Duration lease_;
    mutable std::mutex mutex_;
    std::unordered_map<std::int64_t, Entry> held_;
    std::deque<store::Claimed> claimed_again_;  // newer copies whose elders have ended
    std::size_t bytes_ = 0;
};

}  // namespace deliverd::lane
