#include "lane/shared.h"

#include <utility>

namespace deliverd::lane {

void Signal::poke() {
    if (poked_.exchange(true)) return;
    {
        const std::lock_guard lock(mutex_);
    }  // a waiter is either before its check or already waiting
    condition_.notify_one();
}

void Signal::wait_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    condition_.wait_until(lock, deadline, [this] { return poked_.load(); });
    poked_.store(false);
}

void Tally::add(std::uint64_t LaneTotals::* count, std::uint64_t amount) {
    const std::lock_guard lock(mutex_);
    totals_.*count += amount;
}

LaneTotals Tally::read() const {
    const std::lock_guard lock(mutex_);
    return totals_;
}

Shared::Shared(LaneOptions lane_options, store::Outbox& lane_outbox, sink::Sink& lane_sink, const Clock& lane_clock,
               Observer& lane_observer, Log& lane_log)
    : options(std::move(lane_options)),
      outbox(lane_outbox),
      sink(lane_sink),
      clock(lane_clock),
      observer(lane_observer),
      log(lane_log),
      book(options.lease),
      claimed(2 * static_cast<std::size_t>(options.batch_size)),
      answers(static_cast<std::size_t>(options.parallelism)),
      settling(2 * static_cast<std::size_t>(options.batch_size)) {}

std::size_t Shared::held_limit() const {
    return 4 * static_cast<std::size_t>(options.batch_size) + static_cast<std::size_t>(options.parallelism);
}

void Shared::database_failed(std::string_view operation, const Error& error, std::size_t rows) {
    tally.add(&LaneTotals::database_errors, 1);
    observer.on_flush(error.code == "db_timeout" ? Reason::db_timeout : Reason::db_error, rows == 0 ? 1 : rows);
    log.warn("database call failed", {{"lane", options.name},
                                      {"operation", operation},
                                      {"rows", rows},
                                      {"class", to_string(error.error_class)},
                                      {"code", error.code},
                                      {"error", error.message}});
}

}  // namespace deliverd::lane
