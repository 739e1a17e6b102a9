// The port for work that keeps the tables small: done now and then, by one process at a time.
//
// One lease ("upkeep", in deliverd.leases) says who may; deliverd.chores says when each chore was last done. Both go by
// the database's clock, so that a restart neither repeats nor forgets a chore.
//
// Threads, blocking and failure: as in store/row_queue.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "deliverd/result.h"

namespace deliverd::store {

class Upkeep {
public:
    virtual ~Upkeep() = default;

    /// True: `chore` was last done at least `interval` ago (or never), and the lease was free, had run out or was
    /// `owner`'s; it is now the owner's for `lease`. False: not due, or another owner has the lease.
    virtual Result<bool> begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) = 0;

    /// The lease begins anew. False: another owner has it by now; stop.
    virtual Result<bool> keep(std::string_view owner, Duration lease) = 0;

    /// Gives the lease back, if it is still `owner`'s. `finished`: the chore is done until its interval is over;
    /// otherwise it is due at once.
    virtual Result<void> end(std::string_view chore, std::string_view owner, bool finished) = 0;

    /// Deletes expired ledger rows, at most `limit`, in a transaction of its own that never waits for a row lock;
    /// answers how many. Fewer than `limit`: that was all.
    virtual Result<std::int64_t> purge_ledger(std::int32_t limit) = 0;
};

}  // namespace deliverd::store
