// What the stages of one lane share: its ports, its bounded queues and its counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/mutex.h"
#include "lane/lane_options.h"
#include "lane/lease_book.h"
#include "pipeline/engine.h"
#include "pipeline/reporter.h"
#include "pipeline/send_limit.h"
#include "store/row_queue.h"

namespace deliverd::lane {

using pipeline::kLongestNap;
using pipeline::LaneTotals;
using pipeline::Observer;
using pipeline::Reason;

/// Lines for outbox_audit that wait to be written. Thread-safe.
class AuditNotes {
public:
    static constexpr std::size_t kMost = 10'000;  // further ones are only counted and logged

    void add(store::AuditNote note) {
        const MutexLock lock(mutex_);
        if (notes_.size() < kMost) notes_.push_back(std::move(note));
    }
    std::vector<store::AuditNote> take() {
        const MutexLock lock(mutex_);
        return std::exchange(notes_, {});
    }
    /// Those that were taken and not written come first again.
    void put_back(std::vector<store::AuditNote> notes) {
        const MutexLock lock(mutex_);
        notes.insert(notes.end(), std::move_iterator(notes_.begin()), std::move_iterator(notes_.end()));
        notes_ = std::move(notes);
    }
    [[nodiscard]] bool empty() const {
        const MutexLock lock(mutex_);
        return notes_.empty();
    }

private:
    mutable Mutex mutex_;
    std::vector<store::AuditNote> notes_ GUARDED_BY(mutex_);
};

struct Shared {
    Shared(LaneOptions lane_options, store::RowQueue& lane_outbox, sink::Sink& lane_sink, const Clock& lane_clock,
           Observer& observer, Log& log, pipeline::Control& lane_control)
        : options(std::move(lane_options)),
          outbox(lane_outbox),
          sink(lane_sink),
          clock(lane_clock),
          control(lane_control),
          reporter(options.name, observer, log),
          limit(options.throttle, options.retry_after_cap, reporter),
          book(options.lease),
          claimed(2 * static_cast<std::size_t>(options.batch_size)),
          settling(2 * static_cast<std::size_t>(options.batch_size)) {}

    const LaneOptions options;
    store::RowQueue& outbox;
    sink::Sink& sink;
    const Clock& clock;
    pipeline::Control& control;
    pipeline::Reporter reporter;
    pipeline::SendLimit limit;  // the sender's; the fetcher reads the pause

    LeaseBook book;
    BoundedQueue<store::Claimed> claimed;      // fetch → send
    BoundedQueue<store::Settlement> settling;  // send → settle
    AuditNotes notes;                          // send and settle → settle

    std::atomic<bool> settles_refused{false};  // the last settle that was answered was refused for good
    std::atomic<std::size_t> at_sink{0};

    [[nodiscard]] Observer& observer() const { return reporter.observer(); }

    /// Rows held at once, at most.
    [[nodiscard]] std::size_t held_limit() const {
        return 4 * static_cast<std::size_t>(options.batch_size) + static_cast<std::size_t>(options.parallelism);
    }

    /// Calls the outbox about `rows` rows: reports how long that took, and the error if it failed.
    template <typename Call>
    auto call(std::string_view operation, std::size_t rows, Call&& call) {
        auto answer = reporter.timed(clock, operation, std::forward<Call>(call));
        if (!answer) reporter.database_failed(clock.now(), operation, answer.error(), rows);
        return answer;
    }

    /// Someone else has the row, or it is gone: counted, and noted once.
    void conflict(const store::Settlement& settlement, std::string found) {
        reporter.conflict();
        note(settlement, Reason::conflict, std::move(found));
    }
    void note(const store::Settlement& settlement, Reason reason, std::string detail) {
        notes.add(
            {settlement.id, std::string(pipeline::to_string(reason)), std::move(detail), settlement.failures_before});
    }
    /// The lane is done with this copy of a row. `ended`: a newer copy with the same count has ended too; otherwise
    /// that one is sent next.
    void forget(const store::Settlement& settlement, bool ended) {
        const auto ended_failures = ended ? std::optional(settlement.failures_before) : std::nullopt;
        if (book.end(settlement.id, ended_failures, clock.now())) control.signals.keep.poke();
    }
};

}  // namespace deliverd::lane
