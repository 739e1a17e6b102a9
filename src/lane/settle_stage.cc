#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"
#include "lane/stages.h"
#include "pipeline/decide.h"

namespace deliverd::lane {

namespace {

constexpr Duration kNotesRetryWait = std::chrono::seconds(5);

}  // namespace

SettleStage::SettleStage(Shared& shared, std::uint64_t seed)
    : shared_(shared), random_(seed), queue_(shared.options.settles(1, 1)) {}

Instant SettleStage::step() {
    depth_.report(shared_.observer(), shared_.settling.size());
    const Instant now = shared_.clock.now();
    const bool taken = take_queued(now);
    const bool idle = shared_.control.draining.load() ||
                      (shared_.at_sink.load() == 0 && shared_.claimed.size() == 0 && shared_.settling.size() == 0);
    if (queue_.due(now, idle)) {
        flush(now, queue_.begin(now));
        return now;
    }
    if (queue_.size() == 0 && has_notes() && now >= next_notes_) write_notes(now);
    return taken ? now : std::min(queue_.due_at(), now + kLongestNap);
}

bool SettleStage::take_queued(Instant now) {
    const auto batch_size = static_cast<std::size_t>(shared_.options.batch_size);
    // What stays in the bounded queue slows the sender down: memory stays bounded while the database is away.
    if (queue_.waiting() >= batch_size) return false;
    popped_.clear();
    if (shared_.settling.try_pop(popped_, batch_size - queue_.waiting()) == 0) return false;
    for (store::Settlement& settlement : popped_) queue_.add(std::move(settlement), now);
    // There is room again for the settlements that the sender kept back.
    shared_.control.signals.send.poke();
    return true;
}

void SettleStage::flush(Instant now, const std::vector<store::Settlement>& settlements) {
    // A crash here repeats a send: the receiver has the message, and the row says that it is open.
    failpoint("lane.before_settle");
    const auto answers = shared_.reporter.call(shared_.clock, "settle", settlements.size(), [&] {
        return shared_.outbox.settle(shared_.options.worker_id, settlements);
    });
    Queue::EndedBatch ended = queue_.end(answers ? nullptr : &answers.error(), now, random_, true);
    // While it is only unavailable, claims fail as well; nothing needs to hold them back.
    if (answers || queue_.refused()) shared_.settles_refused = queue_.refused();
    for (const store::Settlement& failed : ended.failed) {
        shared_.note(failed, pipeline::reason_of(answers.error()), answers.error().message);
    }
    leave_to_lease(ended.given_up);
    if (!answers) return;
    ASSERT(answers->size() == ended.answered.size());
    for (std::size_t i = 0; i < ended.answered.size(); ++i) record(ended.answered[i], (*answers)[i], now);
    shared_.control.signals.take.poke();
    shared_.control.signals.stopping.poke();
    if (has_notes()) write_notes(now);
}

void SettleStage::record(Queue::Item& item, const store::SettleAnswer& answer, Instant now) {
    const store::Settlement& settlement = item.settlement;
    const bool took_effect =
        answer.applied || (item.in_doubt && answer.row && pipeline::took_effect_earlier(settlement, *answer.row));
    // Someone has the row locked at this moment. Waiting for it would hold up all others.
    if (!took_effect && answer.row && pipeline::still_ours(settlement, *answer.row, shared_.options.worker_id)) {
        if (!queue_.keep_locked(item, now, random_)) leave_to_lease({std::move(item)});
        return;
    }
    if (took_effect) {
        shared_.reporter.settled(settlement);
    } else {
        shared_.conflict(settlement, !answer.row ? "the row is gone"
                                                 : "found status=" + answer.row->status +
                                                       " locked_by=" + answer.row->locked_by.value_or("nobody"));
    }
    shared_.forget(settlement, took_effect);
}

void SettleStage::write_notes(Instant now) {
    shared_.notes.try_pop(notes_, Shared::kMostNotes - notes_.size());
    const auto written = shared_.reporter.call(shared_.clock, "audit", notes_.size(),
                                               [&] { return shared_.outbox.audit(shared_.options.worker_id, notes_); });
    if (!written) next_notes_ = now + kNotesRetryWait;
    // Nothing in a note shows that it is a repeat. So after an ambiguous failure one may be missing, but none is
    // written twice.
    if (written || written.error().error_class != ErrorClass::retryable) notes_.clear();
}

void SettleStage::leave_to_lease(const std::vector<Queue::Item>& items) {
    if (items.empty()) return;
    shared_.reporter.gave_up_settling(items.size(), std::to_string(items.front().settlement.id));
    for (const Queue::Item& item : items) shared_.forget(item.settlement, true);
    shared_.control.signals.take.poke();
    shared_.control.signals.stopping.poke();
}

void SettleStage::abandon() {
    popped_.clear();
    shared_.settling.try_pop(popped_, shared_.settling.capacity());
    const Instant now = shared_.clock.now();
    for (store::Settlement& settlement : popped_) queue_.add(std::move(settlement), now);
    leave_to_lease(queue_.take_all());
    if (has_notes()) write_notes(now);
}

}  // namespace deliverd::lane
