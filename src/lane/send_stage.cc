#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"
#include "lane/stages.h"
#include "pipeline/decide.h"

namespace deliverd::lane {

namespace {

constexpr Duration kStaleNap = std::chrono::milliseconds(20);  // between checks whether a lease was renewed

}  // namespace

SendStage::SendStage(Shared& shared, std::uint64_t seed)
    : shared_(shared), random_(seed), gate_(2 * shared.held_limit()) {}

Instant SendStage::step() {
    const bool draining = shared_.control.draining.load();
    // By the thread that takes from the queue: so an idle lane shows 0.
    depth_.report(shared_.observer(), shared_.claimed.size());
    std::size_t moved = read_answers();
    shared_.at_sink.store(under_way_.size());
    const Instant now = shared_.clock.now();
    // While the settler has no room, nothing more is sent: each outcome must be recorded in the end.
    if (hand_over() && !draining) {
        moved += send_more(now);
        hand_over();
    }
    shared_.observer().on_in_flight(under_way_.size());
    return moved > 0 ? now : wake_at(now);
}

Instant SendStage::wake_at(Instant now) const {
    const Instant next_permit = shared_.limit.next_permit(now);
    if (next_permit > now) return std::min(next_permit, now + kLongestNap);
    return now + (stale_.empty() ? kLongestNap : kStaleNap);
}

std::size_t SendStage::read_answers() {
    shared_.control.inbox.take(answers_);
    if (!answers_.empty()) failpoint("lane.after_send");
    for (const pipeline::Answer& answer : answers_) {
        // Not found: abandon() has left it to its lease.
        auto node = under_way_.extract(answer.id);
        if (!node.empty()) finish(answer, node.mapped());
    }
    return answers_.size();
}

void SendStage::finish(const pipeline::Answer& answer, UnderWay& under_way) {
    const Outcome& outcome = answer.outcome;
    const Message& message = under_way.row.message;
    const Instant now = shared_.clock.now();
    const bool delivered = outcome.kind == OutcomeKind::delivered;
    shared_.observer().on_outcome(outcome.kind, outcome.code, answer.at - under_way.began);
    if (!delivered) shared_.observer().on_failure(message, outcome);
    shared_.limit.on_outcome(now, outcome, under_way.began);
    if (outcome.not_attempted && outcome.kind == OutcomeKind::retryable) {
        // The row stays ours, uncounted, and goes first when the pause is over; on a stop it is given back.
        shared_.reporter.put_off(now, message, outcome, false);
        shared_.limit.pause_until(now + kPauseWhenNotAttempted);
        leading_.push_back(std::move(under_way.row));
        return;
    }

    if (outcome.code == sink::kStopped && outcome.kind == OutcomeKind::retryable) {
        unsent_.push_back(message.id);  // it never went out: no attempt was made
    } else if (outcome.kind == OutcomeKind::ambiguous && shared_.control.cut_off.load()) {
        // Our own stop cut it off. A settlement as ambiguous would count an attempt for that.
        shared_.book.end(message.id, message.failures, now);
        shared_.reporter.add(&LaneTotals::abandoned, 1);
    } else {
        store::Settlement settlement =
            pipeline::decide(message, outcome, shared_.options.retry, shared_.options.retry_after_cap, random_);
        if (!delivered) shared_.reporter.send_failed(now, message, outcome, settlement);
        ready_.push_back(std::move(settlement));
    }
    follow(message.dedup_key, delivered, outcome.receipt);
}

void SendStage::follow(const std::string& dedup_key, bool delivered, const std::optional<std::string>& receipt) {
    DedupGate::Followers followers = gate_.leader_ended(dedup_key, delivered, receipt);
    for (const store::Claimed& row : followers.duplicates)
        ready_.push_back(pipeline::settle_as_duplicate(row.message, receipt));
    for (store::Claimed& row : followers.next) leading_.push_back(std::move(row));
}

bool SendStage::hand_over() {
    const std::size_t handed = shared_.settling.try_push_some(ready_.begin(), ready_.end());
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(handed));
    if (handed > 0) shared_.control.signals.settle.poke();
    return ready_.empty();
}

std::size_t SendStage::send_more(Instant now) {
    const auto parallelism = static_cast<std::size_t>(shared_.options.parallelism);
    const std::size_t present = under_way_.size();
    if (present >= parallelism) return 0;
    const std::size_t most = present + shared_.limit.permits(now, parallelism - present);
    batch_.clear();
    std::size_t moved = 0;
    // Oldest claims first, because their leases end first. Each row once: admit() may put it back.
    for (std::deque<store::Claimed>* rows : {&stale_, &leading_}) {
        for (std::size_t turn = rows->size(); turn > 0 && under_way_.size() < most; --turn) {
            store::Claimed row = std::move(rows->front());
            rows->pop_front();
            moved += admit(row, now, true) ? 1 : 0;
        }
    }
    while (under_way_.size() < most) {
        const std::size_t room = most - under_way_.size();
        std::vector<store::Claimed> rows = shared_.book.take_claimed_again(room);
        if (rows.empty() && shared_.claimed.try_pop(rows, room) > 0) shared_.control.signals.take.poke();
        if (rows.empty()) break;
        for (store::Claimed& row : rows) moved += admit(row, now, false) ? 1 : 0;
    }
    if (batch_.empty()) return moved;
    ASSERT(under_way_.size() <= parallelism);
    shared_.limit.on_sent(now, batch_.size());
    // A crash here leaves rows without an attempt until their lease runs out.
    failpoint("lane.before_send");
    // Before the sink has them: otherwise the settler could think that no outcome is on its way, and settle a part.
    shared_.at_sink.store(under_way_.size());
    shared_.sink.send(batch_, shared_.control.inbox);
    return moved;
}

/// Puts a row where it belongs: settled as a duplicate, dropped as lost, kept until its lease is renewed, kept behind
/// an equal one, or into the batch. `leads`: the gate already let it through. False when the row only waits.
bool SendStage::admit(store::Claimed& row, Instant now, bool leads) {
    // This copy has an old count: its settlement would be refused as a conflict.
    if (std::optional<store::Claimed> newer = shared_.book.take_newer(row.message.id)) row = std::move(*newer);
    if (row.duplicate) {
        // A claim found it only now. The rows that wait behind this one need no send either.
        if (leads) follow(row.message.dedup_key, true, row.duplicate_receipt);
        ready_.push_back(pipeline::settle_as_duplicate(row.message, std::move(row.duplicate_receipt)));
        return true;
    }
    if (!leads) {
        const DedupGate::Verdict verdict = gate_.admit(row);
        if (verdict == DedupGate::Verdict::wait) return false;
        if (verdict == DedupGate::Verdict::duplicate) return admit(row, now, true);
    }
    switch (shared_.book.look(row.message.id, now)) {
        case Hold::lost: {
            const store::Settlement nothing{.id = row.message.id, .failures_before = row.message.failures};
            shared_.conflict(nothing, "the lease was lost before it was sent");
            shared_.forget(nothing, false);
            shared_.control.signals.settle.poke();  // it writes the note
            shared_.control.signals.take.poke();    // there may be room again
            follow(row.message.dedup_key, false, std::nullopt);
            return true;
        }
        case Hold::stale:
            // No send begins on a lease that may run out before the receiver answers.
            stale_.push_back(std::move(row));
            return false;
        case Hold::fresh:
            break;
    }
    const std::int64_t id = row.message.id;
    // The sink gets pointers into the map, whose nodes do not move.
    const auto [placed, is_new] = under_way_.emplace(id, UnderWay{std::move(row), now});
    ASSERT(is_new);  // the book keeps a row that was claimed again until its elder has ended
    batch_.push_back(&placed->second.row.message);
    return true;
}

bool SendStage::drained() const {
    return under_way_.empty() && ready_.empty() && shared_.control.inbox.empty();
}

void SendStage::abandon() {
    const Instant now = shared_.clock.now();
    for (const store::Settlement& unread : ready_) shared_.book.end(unread.id, unread.failures_before, now);
    for (const auto& [id, under_way] : under_way_) shared_.book.end(id, under_way.row.message.failures, now);
    shared_.reporter.add(&LaneTotals::abandoned, ready_.size() + under_way_.size());
    ready_.clear();
    under_way_.clear();
}

std::vector<std::int64_t> SendStage::take_unsent() {
    std::vector<std::int64_t> ids = std::exchange(unsent_, {});
    const auto collect = [&ids](const auto& rows) {
        for (const store::Claimed& row : rows) ids.push_back(row.message.id);
    };
    std::vector<store::Claimed> claimed;
    shared_.claimed.try_pop(claimed, shared_.claimed.capacity());
    collect(claimed);
    collect(std::exchange(leading_, {}));
    collect(std::exchange(stale_, {}));
    collect(gate_.take_all());
    collect(shared_.book.take_claimed_again(shared_.held_limit()));
    std::ranges::sort(ids);
    return ids;
}

}  // namespace deliverd::lane
