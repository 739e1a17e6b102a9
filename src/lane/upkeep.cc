#include "lane/upkeep.h"

#include <algorithm>
#include <utility>

namespace deliverd::lane {

Upkeep::Upkeep(std::vector<Chore> chores, store::Upkeep& store, std::string owner, const Clock& clock, Log& log)
    : chores_(std::move(chores)), store_(store), owner_(std::move(owner)), clock_(clock), log_(log) {}

Upkeep::~Upkeep() {
    stop();
}

void Upkeep::start() {
    thread_ = std::thread([this] {
        while (!ending_) {
            run_due();
            wake_.wait_until(std::chrono::steady_clock::now() + wait_between_looks());
        }
    });
}

void Upkeep::stop() {
    ending_ = true;
    wake_.poke();
    if (thread_.joinable()) thread_.join();
}

Duration Upkeep::wait_between_looks() const {
    Duration wait = kLongestBetweenLooks;
    for (const Chore& chore : chores_) wait = std::min(wait, chore.interval);
    return wait;
}

std::int64_t Upkeep::run_due() {
    std::int64_t rows = 0;
    for (const Chore& chore : chores_) {
        if (ending_) break;
        rows += run(chore);
    }
    return rows;
}

std::int64_t Upkeep::run(const Chore& chore) {
    const Result<bool> begun = store_.begin(chore.name, owner_, chore.interval, kLease);
    if (!begun) complain(chore, begun.error());
    // False: it is not due, or another process does it.
    if (!begun || !*begun) return 0;
    std::int64_t rows = 0;
    const bool finished = work_off(chore, rows);
    // Also after a failure: another process may try at once.
    if (const auto ended = store_.end(chore.name, owner_, finished); !ended) complain(chore, ended.error());
    if (rows > 0) log_.info("upkeep done", {{"chore", chore.name}, {"rows", rows}, {"finished", finished}});
    return rows;
}

bool Upkeep::work_off(const Chore& chore, std::int64_t& rows) {
    Instant kept = clock_.now();
    while (!ending_) {
        if (clock_.now() - kept >= kKeepAfter) {
            // A chore of many pieces outlasts the lease. If the lease is lost, another process does the rest.
            const Result<bool> ours = store_.keep(owner_, kLease);
            if (!ours) complain(chore, ours.error());
            if (!ours || !*ours) return false;
            kept = clock_.now();
        }
        // In pieces, because one long transaction would keep dead rows of all tables alive and delay a stop.
        const Result<std::int64_t> done = chore.work(chore.piece);
        if (!done) {
            complain(chore, done.error());
            return false;
        }
        rows += *done;
        if (*done < chore.piece) return true;
    }
    return false;
}

void Upkeep::complain(const Chore& chore, const Error& error) {
    log_.warn("upkeep failed; it is tried again",
              {{"chore", chore.name}, {"code", error.code}, {"error", error.message}});
}

}  // namespace deliverd::lane
