#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "lane/decide.h"
#include "lane/stages.h"

namespace deliverd::lane {

namespace {

constexpr Duration kFirstRetryWait = std::chrono::milliseconds(50);
constexpr Duration kLongestRetryWait = std::chrono::seconds(5);
constexpr std::size_t kMaxNotes = 10'000;  // further ones are only counted and logged

}  // namespace

SettleStage::SettleStage(Shared& shared, std::uint64_t seed) : shared_(shared), random_(seed) {}

std::size_t SettleStage::rows_to_flush() const {
    return one_by_one_ > 0 ? 1 : batch_.size();
}

Step SettleStage::step() {
    const auto batch_size = static_cast<std::size_t>(shared_.options.batch_size);
    std::size_t taken = 0;
    if (tries_ == 0 && batch_.size() < batch_size) {
        taken = shared_.settling.try_pop(batch_, batch_size - batch_.size());
        if (taken > 0) shared_.send_signal.poke();
    }
    const Instant now = shared_.clock.now();
    if (batch_.empty()) return {false, now + kLongestNap};
    if (now < next_try_) return {taken > 0, next_try_};
    if (!worth_flushing(now)) return {taken > 0, batch_.front().queued_at + shared_.options.settle_linger};
    flush(now);
    return {true, now};
}

bool SettleStage::worth_flushing(Instant now) const {
    if (batch_.size() >= static_cast<std::size_t>(shared_.options.batch_size)) return true;
    if (tries_ > 0 || one_by_one_ > 0 || shared_.draining.load()) return true;
    if (now - batch_.front().queued_at >= shared_.options.settle_linger) return true;
    return shared_.at_sink.load() == 0 && shared_.claimed.size() == 0 && shared_.settling.size() == 0;
}

void SettleStage::flush(Instant now) {
    const std::size_t rows = rows_to_flush();
    std::vector<store::Settlement> settlements;
    settlements.reserve(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        const SettleItem& item = batch_[i];
        if (item.lost_before_send) continue;
        settlements.push_back(item.settlement);
    }
    if (tries_ == 0) first_try_ = now;
    failpoint("lane.before_settle");
    Result<std::vector<store::SettleAnswer>> answers = std::vector<store::SettleAnswer>{};
    if (!settlements.empty()) {
        answers =
            shared_.timed("settle", [&] { return shared_.outbox.settle(shared_.options.worker_id, settlements); });
    }
    if (!answers) {
        on_failure(answers.error(), shared_.clock.now());
        return;
    }
    record(*answers);
    drop_from_batch(rows);
    write_notes();
}

/// These rows are no longer ours to think of, whatever became of them.
void SettleStage::drop_from_batch(std::size_t rows) {
    std::vector<std::int64_t> ids;
    ids.reserve(rows);
    for (std::size_t i = 0; i < rows; ++i) ids.push_back(batch_[i].settlement.id);
    batch_.erase(batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(rows));
    shared_.book.remove(ids);
    one_by_one_ -= std::min(one_by_one_, rows);
    tries_ = 0;
    next_try_ = Instant{};
    shared_.fetch_signal.poke();
}

/// `answers` belong to the first rows of the batch, in order, without those lost before they were sent.
void SettleStage::record(const std::vector<store::SettleAnswer>& answers) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < rows_to_flush(); ++i) {
        const SettleItem& item = batch_[i];
        std::string found = "the lease was lost before it was sent";
        if (!item.lost_before_send) {
            const store::SettleAnswer& answer = answers[next++];
            const bool took_effect =
                answer.applied || (tries_ > 0 && answer.row && took_effect_earlier(item.settlement, *answer.row));
            if (took_effect) {
                count(item.settlement);
                continue;
            }
            found = !answer.row ? "the row is gone"
                                : "found status=" + answer.row->status +
                                      " locked_by=" + answer.row->locked_by.value_or("nobody");
        }
        shared_.tally.add(&LaneTotals::conflicts, 1);
        shared_.observer.on_flush(Reason::conflict, 1);
        if (notes_.size() < kMaxNotes) {
            notes_.push_back({item.settlement.id, std::string(to_string(Reason::conflict)), std::move(found),
                              item.settlement.failures_before});
        }
    }
}

void SettleStage::count(const store::Settlement& settlement) {
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
void SettleStage::on_failure(const Error& error, Instant now) {
    const std::size_t rows = rows_to_flush();
    shared_.database_failed("settle", error, rows);
    const Reason reason = error.code == "db_timeout" ? Reason::db_timeout : Reason::db_error;
    if (tries_ == 0) {
        for (std::size_t i = 0; i < rows && notes_.size() < kMaxNotes; ++i) {
            const store::Settlement& settlement = batch_[i].settlement;
            notes_.push_back(
                {settlement.id, std::string(to_string(reason)), error.message, settlement.failures_before});
        }
    }
    ++tries_;
    if (error.error_class == ErrorClass::permanent && rows > 1) {
        one_by_one_ = rows;  // one of them is refused for good: find it, let the others pass
        next_try_ = now;
        return;
    }
    if (error.error_class == ErrorClass::permanent || now - first_try_ >= shared_.options.settle_patience) {
        leave_to_lease(rows);
        return;
    }
    const Duration longest = std::min(kFirstRetryWait * (1 << std::min(tries_ - 1, 10)), kLongestRetryWait);
    next_try_ = now + from_seconds(to_seconds(longest) * random_.between(0.75, 1.0));
}

void SettleStage::write_notes() {
    if (notes_.empty()) return;
    const Result<void> written =
        shared_.timed("audit", [&] { return shared_.outbox.audit(shared_.options.worker_id, notes_); });
    if (written) {
        notes_.clear();
        return;
    }
    shared_.database_failed("audit", written.error(), notes_.size());
    if (written.error().error_class != ErrorClass::retryable) notes_.clear();  // rather one too few than two
}

void SettleStage::leave_to_lease(std::size_t rows) {
    if (rows == 0) return;
    shared_.log.error("could not record how these rows ended: left to their leases, they will be sent again",
                      {{"lane", shared_.options.name}, {"rows", rows}, {"first_id", batch_.front().settlement.id}});
    shared_.tally.add(&LaneTotals::abandoned, rows);
    drop_from_batch(rows);
}

void SettleStage::abandon() {
    shared_.settling.try_pop(batch_, shared_.settling.capacity());
    leave_to_lease(batch_.size());
}

}  // namespace deliverd::lane
