// Which rows this lane holds, and since when: what the renewing thread, the fetcher and the sender share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"

namespace deliverd::lane {

enum class Hold {
    fresh,  // ours for some time yet
    stale,  // too close to its end to begin a send: wait for the renewal
    lost,   // the database says it is no longer ours
};

/// Thread-safe. Never blocks beyond its own mutex. Instants are taken *before* the database call that
/// started or renewed the lease, so that a lease never ends earlier than the book thinks.
class LeaseBook {
public:
    explicit LeaseBook(Duration lease);

    /// Notes a row of `bytes` as held; false when it already was: then its lease simply begins anew.
    bool add(std::int64_t id, Instant since, std::size_t bytes = 0);
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
        std::size_t bytes = 0;
        bool lost = false;
    };
    const Duration lease_;
    mutable std::mutex mutex_;
    std::unordered_map<std::int64_t, Entry> held_;
    std::size_t bytes_ = 0;
};

}  // namespace deliverd::lane
