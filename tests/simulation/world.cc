#include "world.h"

#include <algorithm>
#include <utility>

namespace deliverd::simulation {

namespace {

constexpr Duration kLatestAnswer = std::chrono::minutes(3);

/// Marks, while it exists, that a call waits for an answer.
class Waiting {
public:
    explicit Waiting(World& world) : world_(world) { world_.someone_waits = true; }
    ~Waiting() { world_.someone_waits = false; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

private:
    World& world_;
};

}  // namespace

template <typename Call>
auto FaultyOutbox::faulty(std::string_view operation, Call&& call) {
    using Answer = decltype(call());
    world_.note(operation, 0);
    if (world_.happens(world_.faults.slow_call)) world_.elapsed += world_.up_to(world_.lease);
    if (world_.happens(world_.faults.crash_in_call / 2)) throw Crash{};
    if (world_.happens(world_.faults.call_fails)) {
        ++world_.report.database_faults;
        return Answer(retryable("db_timeout", "simulated: the call had no effect"));
    }
    Answer answer = call();
    wait_for_answer();
    if (world_.happens(world_.faults.crash_in_call / 2)) throw Crash{};
    if (world_.happens(world_.faults.answer_lost)) {
        ++world_.report.database_faults;
        return Answer(ambiguous("db_error", "simulated: the call took effect, and its answer was lost"));
    }
    return answer;
}

/// Waits long enough for a retry to become due.
void FaultyOutbox::wait_for_answer() {
    if (world_.someone_waits || !world_.happens(world_.faults.late_answer)) return;
    ++world_.report.late_answers;
    const Waiting waiting(world_);
    world_.run_others(world_.up_to(kLatestAnswer));
}

Result<store::ClaimBatch> FaultyOutbox::claim(const store::ClaimRequest& request) {
    auto answer = faulty("claim", [&] {
        const std::size_t before = world_.outbox.claims.size();
        auto batch = world_.outbox.claim(request);
        for (std::size_t i = before; i < world_.outbox.claims.size(); ++i) {
            const lane::FakeOutbox::Claim& claim = world_.outbox.claims[i];
            const bool left_to_its_lease = unrecorded_.erase(claim.id) > 0;
            if (claim.from_live_holder || left_to_its_lease) ++world_.history[claim.id].excuses;
            world_.note("claimed", static_cast<std::uint64_t>(claim.id));
            told_.erase(claim.id);
        }
        return batch;
    });
    if (!answer) return answer;
    for (const store::Claimed& row : answer->rows) {
        told_.insert(row.message.id);
        if (book_->look(row.message.id, world_.now()) != lane::Hold::lost) ++world_.report.claimed_again;
    }
    return answer;
}

bool FaultyOutbox::forgot(std::int64_t id) const {
    return told_.contains(id) && !unrecorded_.contains(id) && book_->look(id, world_.now()) == lane::Hold::lost;
}

/// Skips locked rows, as the real stores do.
Result<std::vector<store::SettleAnswer>> FaultyOutbox::settle_free_rows(
    std::string_view worker_id, std::span<const store::Settlement> settlements) {
    if (world_.happens(world_.faults.settle_refused)) return permanent("db_error", "simulated: refused permanently");
    std::vector<store::SettleAnswer> answers;
    for (const store::Settlement& settlement : settlements) {
        const lane::FakeOutbox::Row& row = world_.outbox.rows().at(settlement.id);
        if (world_.happens(world_.faults.row_busy)) {
            answers.push_back({settlement.id, false,
                               store::RowState{store::phase_of(row.status), row.status, row.failures, row.locked_by,
                                               row.last_error}});
        } else {
            answers.push_back(world_.outbox.settle(worker_id, {&settlement, 1})->front());
        }
    }
    return answers;
}

Result<std::vector<store::SettleAnswer>> FaultyOutbox::settle(std::string_view worker_id,
                                                              std::span<const store::Settlement> settlements) {
    for (const store::Settlement& settlement : settlements) {
        world_.note("settle", static_cast<std::uint64_t>(settlement.id));
    }
    for (const store::Settlement& settlement : settlements) unrecorded_.insert(settlement.id);
    auto answers = faulty("settling", [&] {
        auto done = settle_free_rows(worker_id, settlements);
        if (done) forget_recorded(worker_id, settlements);
        return done;
    });
    if (answers) return answers;
    for (const store::Settlement& settlement : settlements) unrecorded_.insert(settlement.id);
    return answers;
}

/// A row that is still open and ours, with the same failure count, was skipped.
void FaultyOutbox::forget_recorded(std::string_view worker_id, std::span<const store::Settlement> settlements) {
    for (const store::Settlement& settlement : settlements) {
        const lane::FakeOutbox::Row& row = world_.outbox.rows().at(settlement.id);
        const bool left_out =
            row.status == "pending" && row.locked_by == worker_id && row.failures == settlement.failures_before;
        if (!left_out) unrecorded_.erase(settlement.id);
    }
}

Result<store::RenewAnswer> FaultyOutbox::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    world_.report.renewals += ids.size();
    return faulty("renew", [&] { return world_.outbox.renew(worker_id, ids); });
}

Result<std::int64_t> FaultyOutbox::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    return faulty("release", [&] { return world_.outbox.release(worker_id, ids); });
}

/// The former holder of a freed row may still be sending it: that allows one repetition.
Result<std::int64_t> FaultyOutbox::rescue(std::string_view worker_id, Duration stuck_for) {
    return faulty("rescue", [&] {
        const std::size_t before = world_.outbox.rescued.size();
        auto freed = world_.outbox.rescue(worker_id, stuck_for);
        for (std::size_t i = before; i < world_.outbox.rescued.size(); ++i) {
            const std::int64_t id = world_.outbox.rescued[i];
            ++world_.history[id].excuses;
            ++world_.report.rescued;
            world_.note("rescued", static_cast<std::uint64_t>(id));
        }
        return freed;
    });
}

Result<void> FaultyOutbox::audit(std::string_view worker_id, std::span<const store::AuditNote> notes) {
    return faulty("audit", [&] { return world_.outbox.audit(worker_id, notes); });
}

SimulatedSink::Send SimulatedSink::plan(const Message& message, sink::OutcomeReceiver& receiver) {
    Send send{message.id, &message, &receiver, {}, {}, true, false, OutcomeKind::delivered, false, {}};
    if (world_.happens(world_.faults.send_fails)) {
        send.taken = false;
        send.outcome = OutcomeKind::retryable;
    } else if (world_.happens(world_.faults.send_limited)) {
        send.taken = false;
        send.outcome = OutcomeKind::retryable;
        send.limited = true;
        if (world_.random.below(4) > 0) send.retry_after = world_.up_to(world_.lease * 2);
    } else if (world_.happens(world_.faults.send_refused)) {
        send.taken = false;
        send.outcome = OutcomeKind::permanent;
    } else if (world_.happens(world_.faults.send_ambiguous)) {
        send.taken = world_.random.below(2) == 0;
        send.outcome = OutcomeKind::ambiguous;
    }
    const bool slow = world_.happens(world_.faults.slow_send);
    const Duration takes = world_.up_to(slow ? world_.lease * 3 : Duration(std::chrono::milliseconds(100)));
    send.reaches_receiver_at = world_.elapsed + world_.up_to(takes);
    send.answered_at = world_.elapsed + takes;
    return send;
}

void SimulatedSink::send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) {
    for (const Message* message : messages) {
        ++world_.report.sends;
        if (world_.elapsed < paused_until_) {
            world_.report.violations.push_back("row " + std::to_string(message->id) + " was sent during a pause");
        }
        const auto same = [message](const Send& send) { return send.id == message->id; };
        if (std::any_of(under_way_.begin(), under_way_.end(), same)) {
            world_.report.violations.push_back("row " + std::to_string(message->id) + " was sent twice at once");
        }
        world_.note("send", static_cast<std::uint64_t>(message->id));
        under_way_.push_back(plan(*message, receiver));
    }
}

Duration SimulatedSink::next_event() const {
    Duration next = Duration::max();
    for (const Send& send : under_way_) {
        next = std::min(next, send.reached ? send.answered_at : send.reaches_receiver_at);
    }
    return next;
}

void SimulatedSink::run_events(bool alive) {
    for (Send& send : under_way_) {
        if (send.reached || send.reaches_receiver_at > world_.elapsed) continue;
        send.reached = true;
        if (!send.taken) continue;
        RowHistory& row = world_.history[send.id];
        if (row.accepted > 0) ++world_.report.repeated_deliveries;
        ++row.accepted;
        world_.note("accepted", static_cast<std::uint64_t>(send.id));
    }
    std::vector<Send> answered;
    std::erase_if(under_way_, [&](const Send& send) {
        if (!send.reached || (alive && send.answered_at > world_.elapsed)) return false;
        answered.push_back(send);
        return true;
    });
    for (const Send& send : answered) {
        if (!alive) continue;
        RowHistory& row = world_.history[send.id];
        if (send.outcome != OutcomeKind::delivered) ++row.failed_sends;
        if (send.outcome == OutcomeKind::permanent) row.refused = true;
        if (send.outcome == OutcomeKind::ambiguous) ++row.excuses;
        send.receiver->on_outcome(*send.message, outcome_of(send));
    }
}

Outcome SimulatedSink::outcome_of(const Send& send) {
    Outcome outcome;
    outcome.kind = send.outcome;
    if (send.outcome == OutcomeKind::delivered) outcome.receipt = "r" + std::to_string(send.id);
    if (!send.limited) return outcome;
    outcome.code = kRateLimited;
    outcome.retry_after = send.retry_after;
    if (world_.throttled && send.retry_after) {
        paused_until_ = std::max(paused_until_, world_.elapsed + *send.retry_after);
        ++world_.report.pauses;
    }
    return outcome;
}

}  // namespace deliverd::simulation
