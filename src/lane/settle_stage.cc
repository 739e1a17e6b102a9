#include <algorithm>
#include <iterator>
#include <utility>

#include "base/failpoint.h"
#include "lane/stages.h"
#include "pipeline/decide.h"

namespace deliverd::lane {

namespace {

constexpr Duration kFirstRetryWait = std::chrono::milliseconds(10);  // most locks on a row are gone by then
constexpr Duration kLongestRetryWait = std::chrono::seconds(5);
constexpr std::size_t kMaxNotes = 10'000;  // further ones are only counted and logged

Reason reason_of(const Error& error) {
    return error.code == "db_timeout" ? Reason::db_timeout : Reason::db_error;
}

}  // namespace

SettleStage::SettleStage(Shared& shared, std::uint64_t seed) : shared_(shared), random_(seed) {}

Step SettleStage::step() {
    const auto batch_size = static_cast<std::size_t>(shared_.options.batch_size);
    depth_.tell(shared_.observer, shared_.settling.size());
    std::size_t taken = 0;
    if (failed_calls_ == 0 && batch_.size() < batch_size) {
        taken = shared_.settling.try_pop(batch_, batch_size - batch_.size());
        if (taken > 0) shared_.signals.send.poke();
    }
    const Instant now = shared_.clock.now();
    take_back(now);
    if (batch_.empty()) {
        if (!notes_.empty() && now >= next_notes_) write_notes(now);
        return {false, wake_at(now)};
    }
    if (now < next_try_) return {taken > 0, next_try_};
    if (!worth_flushing(now)) return {taken > 0, batch_.front().queued_at + shared_.options.settle_linger};
    flush(now);
    return {true, now};
}

Instant SettleStage::wake_at(Instant now) const {
    Instant wake = now + kLongestNap;
    if (!held_back_.empty()) wake = std::min(wake, held_back_.front().retry_at);
    return wake;
}

/// What someone had locked joins the batch again; what was refused goes alone, at its front.
void SettleStage::take_back(Instant now) {
    if (one_by_one_ > 0 || failed_calls_ > 0) return;
    while (!held_back_.empty() && held_back_.front().retry_at <= now) {
        const bool alone = held_back_.front().refused;
        batch_.insert(alone ? batch_.begin() : batch_.end(), std::move(held_back_.front()));
        held_back_.pop_front();
        if (!alone) continue;
        one_by_one_ = 1;
        return;
    }
}

bool SettleStage::worth_flushing(Instant now) const {
    if (batch_.size() >= static_cast<std::size_t>(shared_.options.batch_size)) return true;
    if (failed_calls_ > 0 || one_by_one_ > 0 || shared_.draining.load()) return true;
    if (now - batch_.front().queued_at >= shared_.options.settle_linger) return true;
    return shared_.at_sink.load() == 0 && shared_.claimed.size() == 0 && shared_.settling.size() == 0;
}

void SettleStage::flush(Instant now) {
    const std::size_t rows = rows_to_flush();
    std::vector<store::Settlement> settlements;
    settlements.reserve(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        if (!batch_[i].lost_before_send) settlements.push_back(batch_[i].settlement);
    }
    failpoint("lane.before_settle");
    Result<std::vector<store::SettleAnswer>> answers = std::vector<store::SettleAnswer>{};
    if (!settlements.empty()) {
        answers =
            shared_.timed("settle", [&] { return shared_.outbox.settle(shared_.options.worker_id, settlements); });
    }
    if (!answers) {
        on_failure(answers.error(), rows, now);
        return;
    }
    failed_calls_ = 0;
    next_try_ = Instant{};
    shared_.settles_refused = false;
    record(*answers, rows, now);
    drop_from_batch(rows);
    if (!notes_.empty()) write_notes(now);
}

/// `answers` belong to the first `rows` of the batch, in order, without those lost before they were sent.
void SettleStage::record(const std::vector<store::SettleAnswer>& answers, std::size_t rows, Instant now) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < rows; ++i) {
        SettleItem& item = batch_[i];
        if (item.lost_before_send) {
            conflict(item, "the lease was lost before it was sent");
            forget(item.settlement, false);
            continue;
        }
        const store::SettleAnswer& answer = answers[next++];
        const bool took_effect = answer.applied || (item.in_doubt && answer.row &&
                                                    pipeline::took_effect_earlier(item.settlement, *answer.row));
        if (!took_effect && answer.row &&
            pipeline::still_ours(item.settlement, *answer.row, shared_.options.worker_id)) {
            hold_back(std::move(item), now);  // someone has it locked at this moment
            continue;
        }
        if (took_effect) {
            count(item.settlement);
        } else {
            conflict(item, !answer.row ? "the row is gone"
                                       : "found status=" + answer.row->status +
                                             " locked_by=" + answer.row->locked_by.value_or("nobody"));
        }
        forget(item.settlement, took_effect);
    }
    shared_.signals.take.poke();
    shared_.signals.stopping.poke();
}

void SettleStage::conflict(const SettleItem& item, std::string found) {
    shared_.tally.add(&LaneTotals::conflicts, 1);
    shared_.observer.on_flush(Reason::conflict, 1);
    note(item, Reason::conflict, std::move(found));
}

void SettleStage::count(const store::Settlement& settlement) {
    shared_.observer.on_settled(settlement);
    switch (settlement.kind) {
        case store::SettleKind::sent:
            shared_.tally.add(&LaneTotals::sent, 1);
            return shared_.observer.on_flush(Reason::success, 1);
        case store::SettleKind::duplicate:
            shared_.tally.add(&LaneTotals::duplicates, 1);
            return shared_.observer.on_flush(Reason::dedup_hit, 1);
        case store::SettleKind::retry:
            shared_.tally.add(&LaneTotals::retried, 1);
            return shared_.observer.on_flush(Reason::retry, 1);
        case store::SettleKind::dead:
            shared_.tally.add(&LaneTotals::dead, 1);
            return shared_.observer.on_flush(Reason::dead, 1);
    }
}

/// The rows stay ours while we try again: repeating a settle is safe, because the first one that takes effect
/// also gives the row up.
void SettleStage::on_failure(const Error& error, std::size_t rows, Instant now) {
    shared_.database_failed("settle", error, rows);
    const bool refused = error.error_class == ErrorClass::permanent;
    if (refused) {
        shared_.settles_refused = true;
        failed_calls_ = 0;  // it did answer
    }
    if (refused && rows > 1) {
        one_by_one_ = rows;  // let those pass that can
        return;
    }
    for (std::size_t i = 0; i < rows; ++i) {
        SettleItem& item = batch_[i];
        if (item.tries == 0) note(item, reason_of(error), error.message);
        if (error.error_class == ErrorClass::ambiguous) item.in_doubt = true;
    }
    if (refused) {
        SettleItem item = std::move(batch_.front());
        item.refused = true;
        drop_from_batch(1);
        hold_back(std::move(item), now);
        return;
    }
    for (std::size_t i = 0; i < rows; ++i) {
        if (batch_[i].tries++ == 0) batch_[i].first_try = now;
    }
    if (now - batch_.front().first_try >= shared_.options.settle_patience) {
        leave_to_lease({batch_.data(), rows});
        drop_from_batch(rows);
        failed_calls_ = 0;
        return;
    }
    next_try_ = now + wait_after(++failed_calls_);
}

void SettleStage::hold_back(SettleItem item, Instant now) {
    if (item.tries++ == 0) item.first_try = now;
    if (now - item.first_try >= shared_.options.settle_patience) {
        leave_to_lease({&item, 1});
        return;
    }
    item.retry_at = now + wait_after(item.tries);
    held_back_.push_back(std::move(item));
}

Duration SettleStage::wait_after(std::int32_t tries) {
    const Duration longest = std::min(kFirstRetryWait * (1 << std::clamp(tries - 1, 0, 10)), kLongestRetryWait);
    return from_seconds(to_seconds(longest) * random_.between(0.75, 1.0));
}

void SettleStage::note(const SettleItem& item, Reason reason, std::string detail) {
    if (notes_.size() >= kMaxNotes) return;
    notes_.push_back(
        {item.settlement.id, std::string(to_string(reason)), std::move(detail), item.settlement.failures_before});
}

void SettleStage::write_notes(Instant now) {
    const Result<void> written =
        shared_.timed("audit", [&] { return shared_.outbox.audit(shared_.options.worker_id, notes_); });
    if (written) {
        notes_.clear();
        return;
    }
    shared_.database_failed("audit", written.error(), notes_.size());
    next_notes_ = now + kLongestRetryWait;
    if (written.error().error_class != ErrorClass::retryable) notes_.clear();  // rather one too few than two
}

void SettleStage::drop_from_batch(std::size_t rows) {
    batch_.erase(batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(rows));
    one_by_one_ -= std::min(one_by_one_, rows);
}

/// This copy of the row is no longer ours to think of, whatever became of it; `ended` also says so of what was claimed
/// again at the same count. What was claimed anew goes on its way.
void SettleStage::forget(const store::Settlement& settlement, bool ended) {
    const std::optional<std::int32_t> ended_failures = ended ? std::optional(settlement.failures_before) : std::nullopt;
    if (shared_.book.end(settlement.id, ended_failures, shared_.clock.now())) shared_.signals.keep.poke();
}

void SettleStage::leave_to_lease(std::span<const SettleItem> items) {
    if (items.empty()) return;
    shared_.log.error(
        "could not record how these rows ended: left to their leases, they will be sent again",
        {{"lane", shared_.options.name}, {"rows", items.size()}, {"first_id", items.front().settlement.id}});
    shared_.tally.add(&LaneTotals::abandoned, items.size());
    for (const SettleItem& item : items) forget(item.settlement, !item.lost_before_send);
    shared_.signals.take.poke();
    shared_.signals.stopping.poke();
}

void SettleStage::abandon() {
    shared_.settling.try_pop(batch_, shared_.settling.capacity());
    std::move(held_back_.begin(), held_back_.end(), std::back_inserter(batch_));
    held_back_.clear();
    leave_to_lease(batch_);
    batch_.clear();
    if (!notes_.empty()) write_notes(shared_.clock.now());
}

}  // namespace deliverd::lane
