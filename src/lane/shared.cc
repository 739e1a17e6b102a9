#include "lane/shared.h"

#include <utility>

namespace deliverd::lane {

void Tally::add(std::uint64_t LaneTotals::* count, std::uint64_t amount) {
    const std::lock_guard lock(mutex_);
    totals_.*count += amount;
}

LaneTotals Tally::read() const {
    const std::lock_guard lock(mutex_);
    return totals_;
}

Shared::Shared(LaneOptions lane_options, store::Outbox& lane_outbox, sink::Sink& lane_sink, const Clock& lane_clock,
               Observer& lane_observer, Log& lane_log, pipeline::Signals& lane_signals)
    : options(std::move(lane_options)),
      outbox(lane_outbox),
      sink(lane_sink),
      clock(lane_clock),
      observer(lane_observer),
      log(lane_log),
      book(options.lease),
      claimed(2 * static_cast<std::size_t>(options.batch_size)),
      settling(2 * static_cast<std::size_t>(options.batch_size)),
      signals(lane_signals),
      inbox(clock, signals.send) {}

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
