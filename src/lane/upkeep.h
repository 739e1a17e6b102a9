// Chores that keep the tables small, now and then, by one process at a time (store/upkeep.h says who).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "store/upkeep.h"

namespace deliverd::lane {

struct Chore {
    std::string name;
    Duration interval{};
    std::int32_t piece = 0;  // rows at once
    /// Does one piece and answers how many rows that were; fewer than `piece`: that was all.
    std::function<Result<std::int64_t>(std::int32_t piece)> work;
};

class Upkeep {
public:
    static constexpr Duration kLease = std::chrono::seconds(60);
    static constexpr Duration kKeepAfter = kLease / 3;  // of a lease that is in use
    static constexpr Duration kLongestBetweenLooks = std::chrono::seconds(30);

    /// `store`, `clock` and `log` outlive it. `owner` is unique among all processes on the database.
    Upkeep(std::vector<Chore> chores, store::Upkeep& store, std::string owner, const Clock& clock, Log& log);
    ~Upkeep();  // stop()
    Upkeep(const Upkeep&) = delete;
    Upkeep& operator=(const Upkeep&) = delete;

    /// Starts a thread that looks at once and then as often as the shortest interval wants.
    void start();

    /// Ends after the piece under way, gives the lease back, joins the thread. Idempotent.
    void stop();

    /// One look on the calling thread: does what is due and may be done here. Answers the rows of all chores.
    std::int64_t run_due();

private:
    std::int64_t run(const Chore& chore);
    /// All pieces; false when it could not be finished.
    bool work_off(const Chore& chore, std::int64_t& rows);
    void complain(const Chore& chore, const Error& error);
    [[nodiscard]] Duration wait_between_looks() const;
    [[nodiscard]] bool ending();

    const std::vector<Chore> chores_;
    store::Upkeep& store_;
    const std::string owner_;
    const Clock& clock_;
    Log& log_;

    std::mutex mutex_;
    std::condition_variable wake_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace deliverd::lane
