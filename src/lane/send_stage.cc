#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "lane/stages.h"
#include "pipeline/decide.h"

namespace deliverd::lane {

namespace {

constexpr Duration kStaleNap = std::chrono::milliseconds(20);  // between looks whether a lease was renewed

}  // namespace

SendStage::SendStage(Shared& shared, std::uint64_t seed)
    : shared_(shared), random_(seed), gate_(2 * shared.held_limit()) {
    if (shared.options.throttle) throttle_.emplace(shared.options.retry_after_cap);
}

Step SendStage::step() {
    const bool draining = shared_.draining.load();
    depth_.tell(shared_.observer, shared_.claimed.size());
    std::size_t moved = read_answers();
    shared_.at_sink.store(under_way_.size());
    const Instant now = shared_.clock.now();
    if (hand_over() && !draining) {
        moved += send_more(now);
        hand_over();
    }
    shared_.observer.on_in_flight(under_way_.size());
    if (draining) {
        shared_.sends_ended = true;
        shared_.signals.stopping.poke();
    }
    return {moved > 0, wake_at(now)};
}

Instant SendStage::wake_at(Instant now) const {
    if (now < put_off_until_) return std::min(put_off_until_, now + kLongestNap);
    if (throttle_ && throttle_->next_permit(now) > now) return std::min(throttle_->next_permit(now), now + kLongestNap);
    return now + (stale_.empty() ? kLongestNap : kStaleNap);
}

std::size_t SendStage::read_answers() {
    shared_.inbox.take(answers_);
    if (!answers_.empty()) failpoint("lane.after_send");
    for (const pipeline::Answer& answer : answers_) {
        auto node = under_way_.extract(answer.id);
        if (!node.empty()) finish(answer, node.mapped());
    }
    return answers_.size();
}

void SendStage::finish(const pipeline::Answer& answer, UnderWay& under_way) {
    const Outcome& outcome = answer.outcome;
    const Message& message = under_way.row.message;
    const bool delivered = outcome.kind == OutcomeKind::delivered;
    shared_.observer.on_outcome(outcome.kind, outcome.code, answer.at - under_way.began);
    if (!delivered) shared_.observer.on_failure(message, outcome);
    adjust_rate(outcome, under_way.began);
    if (outcome.not_attempted && outcome.kind == OutcomeKind::retryable) {
        put_off(std::move(under_way.row), outcome);
        return;
    }

    if (outcome.code == sink::kStopped && outcome.kind == OutcomeKind::retryable) {
        unsent_.push_back(message.id);  // it never went out: no attempt was made
    } else if (outcome.kind == OutcomeKind::ambiguous && shared_.cut_off.load()) {
        shared_.book.end(message.id, message.failures, shared_.clock.now());
        shared_.tally.add(&LaneTotals::abandoned, 1);
    } else {
        store::Settlement settlement =
            pipeline::decide(message, outcome, shared_.options.retry, shared_.options.retry_after_cap, random_);
        if (!delivered) log_failure(message, outcome, settlement);
        queue_settlement(std::move(settlement));
    }
    follow(message.dedup_key, delivered, outcome.receipt);
}

/// The row stays ours, uncounted, and goes first when the pause is over; on a stop it is given back.
void SendStage::put_off(store::Claimed row, const Outcome& outcome) {
    leading_.push_back(std::move(row));
    shared_.tally.add(&LaneTotals::put_off, 1);
    const Instant now = shared_.clock.now();
    if (const auto left_out = put_off_lines_.admit(now, outcome.code)) {
        shared_.log.error("nothing can be sent: waiting", {{"lane", shared_.options.name},
                                                           {"error", pipeline::describe_failure(outcome)},
                                                           {"lines_left_out", *left_out}});
    }
    put_off_until_ = now + kPauseWhenNotAttempted;
    shared_.paused_until = std::max(shared_.paused_until.load(), put_off_until_.time_since_epoch());
}

void SendStage::adjust_rate(const Outcome& outcome, Instant began) {
    if (!throttle_) return;
    const std::optional<double> before = throttle_->rate();
    if (outcome.code == kRateLimited) {
        const Instant now = shared_.clock.now();
        throttle_->on_rate_limited(began, now, outcome.retry_after);
        shared_.paused_until = throttle_->paused_until().time_since_epoch();
    } else if (outcome.kind == OutcomeKind::delivered) {
        throttle_->on_success(began);
    }
    const std::optional<double> rate = throttle_->rate();
    if (rate == before) return;
    shared_.observer.on_send_rate(rate.value_or(0));
    if (!rate) {
        shared_.log.info("sending without a limit again", {{"lane", shared_.options.name}});
    } else if (!before || *rate < *before) {
        shared_.log.warn("the receiver asked for less: sending slower",
                         {{"lane", shared_.options.name}, {"per_second", *rate}});
    }
}

void SendStage::log_failure(const Message& message, const Outcome& outcome, const store::Settlement& settlement) {
    const std::optional<std::uint64_t> left_out = failure_lines_.admit(shared_.clock.now());
    if (!left_out) return;
    const bool dead = settlement.kind == store::SettleKind::dead;
    shared_.log.write(dead ? LogLevel::error : LogLevel::warn, dead ? "gave up on a message" : "a send failed",
                      {{"lane", shared_.options.name},
                       {"message_id", message.message_id},
                       {"outcome", to_string(outcome.kind)},
                       {"failures", message.failures + 1},
                       {"retry_in_seconds", to_seconds(settlement.delay)},
                       {"error", settlement.error},
                       {"lines_left_out", *left_out}});
}

void SendStage::follow(const std::string& dedup_key, bool delivered, const std::optional<std::string>& receipt) {
    DedupGate::Followers followers = gate_.leader_ended(dedup_key, delivered, receipt);
    for (const store::Claimed& row : followers.duplicates)
        queue_settlement(pipeline::settle_as_duplicate(row.message, receipt));
    for (store::Claimed& row : followers.next) leading_.push_back(std::move(row));
}

void SendStage::queue_settlement(store::Settlement settlement, bool lost_before_send) {
    ready_.push_back({std::move(settlement), shared_.clock.now(), lost_before_send});
}

bool SendStage::hand_over() {
    const std::size_t handed = shared_.settling.try_push_some(ready_.begin(), ready_.end());
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(handed));
    if (handed > 0) {
        shared_.signals.settle.poke();
    }
    return ready_.empty();
}

/// How many messages may be at the sink when this step is over.
std::size_t SendStage::most_under_way(Instant now) const {
    const auto parallelism = static_cast<std::size_t>(shared_.options.parallelism);
    const std::size_t present = under_way_.size();
    if (!throttle_ || present >= parallelism) return parallelism;
    return present + throttle_->permits(now, parallelism - present);
}

std::size_t SendStage::send_more(Instant now) {
    if (now < put_off_until_) return 0;
    const std::size_t most = most_under_way(now);
    batch_.clear();
    std::size_t moved = 0;
    for (std::size_t turn = stale_.size(); turn > 0 && under_way_.size() < most; --turn) {
        store::Claimed row = std::move(stale_.front());
        stale_.pop_front();
        moved += admit(row, now, true) ? 1 : 0;
    }
    while (under_way_.size() < most && !leading_.empty()) {
        store::Claimed row = std::move(leading_.front());
        leading_.pop_front();
        moved += admit(row, now, true) ? 1 : 0;
    }
    while (under_way_.size() < most) {
        std::vector<store::Claimed> again = shared_.book.take_claimed_again(most - under_way_.size());
        if (again.empty()) break;
        for (store::Claimed& row : again) moved += admit(row, now, false) ? 1 : 0;
    }
    while (under_way_.size() < most) {
        popped_.clear();
        if (shared_.claimed.try_pop(popped_, most - under_way_.size()) == 0) break;
        shared_.signals.take.poke();
        for (store::Claimed& row : popped_) moved += admit(row, now, false) ? 1 : 0;
    }
    if (batch_.empty()) return moved;
    if (throttle_) throttle_->on_sent(now, batch_.size());
    failpoint("lane.before_send");
    shared_.at_sink.store(under_way_.size());
    shared_.sink.send(batch_, shared_.inbox);
    return moved;
}

/// Sorts a row into where it belongs: settled as a duplicate, dropped as lost, kept until its lease is
/// renewed, kept behind an equal one, or the batch. `leads`: the gate already let it through.
/// False when it only waits.
bool SendStage::admit(store::Claimed& row, Instant now, bool leads) {
    if (std::optional<store::Claimed> newer = shared_.book.take_newer(row.message.id)) row = std::move(*newer);
    if (row.duplicate) {
        if (leads) follow(row.message.dedup_key, true, row.duplicate_receipt);
        queue_settlement(pipeline::settle_as_duplicate(row.message, std::move(row.duplicate_receipt)));
        return true;
    }
    if (!leads) {
        const DedupGate::Verdict verdict = gate_.admit(row);
        if (verdict == DedupGate::Verdict::wait) return false;
        if (verdict == DedupGate::Verdict::duplicate) return admit(row, now, true);
    }
    switch (shared_.book.look(row.message.id, now)) {
        case Hold::lost: {
            store::Settlement nothing;
            nothing.id = row.message.id;
            nothing.failures_before = row.message.failures;
            queue_settlement(std::move(nothing), true);
            follow(row.message.dedup_key, false, std::nullopt);
            return true;
        }
        case Hold::stale:
            stale_.push_back(std::move(row));
            return false;
        case Hold::fresh:
            break;
    }
    const std::int64_t id = row.message.id;
    const auto placed = under_way_.emplace(id, UnderWay{std::move(row), now}).first;
    batch_.push_back(&placed->second.row.message);
    return true;
}

bool SendStage::drained() const {
    return under_way_.empty() && ready_.empty() && shared_.inbox.empty();
}

void SendStage::abandon() {
    const Instant now = shared_.clock.now();
    for (const SettleItem& item : ready_) shared_.book.end(item.settlement.id, item.settlement.failures_before, now);
    for (const auto& [id, under_way] : under_way_) shared_.book.end(id, under_way.row.message.failures, now);
    shared_.tally.add(&LaneTotals::abandoned, ready_.size() + under_way_.size());
    ready_.clear();
    under_way_.clear();
}

std::vector<std::int64_t> SendStage::take_unsent() {
    std::vector<std::int64_t> ids = std::move(unsent_);
    unsent_.clear();
    const auto collect = [&ids](auto& rows) {
        for (const store::Claimed& row : rows) ids.push_back(row.message.id);
        rows.clear();
    };
    popped_.clear();
    shared_.claimed.try_pop(popped_, shared_.claimed.capacity());
    collect(popped_);
    collect(leading_);
    collect(stale_);
    std::vector<store::Claimed> waiting = gate_.take_all();
    collect(waiting);
    std::vector<store::Claimed> again = shared_.book.take_claimed_again(shared_.held_limit());
    collect(again);
    std::sort(ids.begin(), ids.end());
    return ids;
}

}  // namespace deliverd::lane
