// Chores that keep the tables small. One process at a time does them (store/upkeep.h decides which), because they are
// rare and short. When each was last done is in the database, so that restarts neither repeat nor forget one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "pipeline/control.h"
#include "store/upkeep.h"

namespace deliverd::lane {

struct Chore {
    std::string name;
    Duration interval{};
    std::int32_t piece = 0;  // rows per call of `work`
    /// Does one piece and answers how many rows that were; fewer than `piece` means that none are left.
    std::function<Result<std::int64_t>(std::int32_t piece)> work;
};

class Upkeep {
public:
    static constexpr Duration kLease = std::chrono::seconds(60);
    static constexpr Duration kKeepAfter = kLease / 3;  // the lease is renewed
    static constexpr Duration kLongestBetweenLooks = std::chrono::seconds(30);

    /// `store`, `clock` and `log` outlive it. `owner` is unique among all processes on the database.
    Upkeep(std::vector<Chore> chores, store::Upkeep& store, std::string owner, const Clock& clock, Log& log);
    ~Upkeep();  // stop()
    Upkeep(const Upkeep&) = delete;
    Upkeep& operator=(const Upkeep&) = delete;

    /// Starts a thread that looks at once and then once per shortest interval.
    void start();

    /// Ends after the piece under way, gives the lease back, joins the thread. Idempotent.
    void stop();

    /// One look on the calling thread: does the chores that are due, if no other process does. Answers the rows of all.
    std::int64_t run_due();

private:
    std::int64_t run(const Chore& chore);
    /// All pieces; false when it could not finish.
    bool work_off(const Chore& chore, std::int64_t& rows);
    void complain(const Chore& chore, const Error& error);
    [[nodiscard]] Duration wait_between_looks() const;

    const std::vector<Chore> chores_;
    store::Upkeep& store_;
    const std::string owner_;
    const Clock& clock_;
    Log& log_;

    pipeline::Signal wake_;
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

}  // namespace deliverd::lane
