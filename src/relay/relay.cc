#include "relay/relay.h"

#include <algorithm>
#include <utility>

#include "base/failpoint.h"

namespace deliverd::relay {

namespace {

constexpr Duration kOncePatience = std::chrono::seconds(5);  // of run_once with strict_order

}  // namespace

Relay::Relay(RelayOptions options, store::EventOutbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
             pipeline::Observer& observer, Log& log)
    : Engine(sink, clock),
      options_(std::move(options)),
      outbox_(outbox),
      observer_(observer),
      core_(options_, random.next(), observer, log),
      inbox_(clock, signals_.send) {}

Relay::~Relay() {
    stop(Duration::zero());
}

// --- shards --------------------------------------------------------------------------------------------------------

Instant Relay::keep() {
    release_shards();
    const Instant began = clock_.now();
    {
        const std::lock_guard lock(mutex_);
        if (began < core_.next_tend()) return std::min(core_.next_tend(), began + pipeline::kLongestNap);
    }
    tended_ = true;
    const auto answer = timed("tend", [&] { return outbox_.tend(options_.owner, options_.lease); });
    {
        const std::lock_guard lock(mutex_);
        core_.tended(began, clock_.now(), answer);
    }
    signals_.take.poke();
    signals_.send.poke();
    return clock_.now();
}

void Relay::release_shards() {
    std::vector<store::ShardLease> leases;
    {
        const std::lock_guard lock(mutex_);
        leases = core_.begin_release();
    }
    if (leases.empty()) return;
    const auto answer = timed("release", [&] { return outbox_.release(options_.owner, leases); });
    const std::lock_guard lock(mutex_);
    core_.end_release(clock_.now(), leases, answer);
}

// --- reading -------------------------------------------------------------------------------------------------------

Instant Relay::take() {
    if (read_once()) return clock_.now();
    const std::lock_guard lock(mutex_);
    return core_.next_look(clock_.now());
}

/// False when it was not time for a look.
bool Relay::read_once() {
    const Instant began = clock_.now();
    std::optional<store::EventRead> request;
    {
        const std::lock_guard lock(mutex_);
        request = core_.begin_look(began);
    }
    if (!request) return false;
    Result<store::EventBatch> found = timed("read", [&] { return outbox_.read(*request); });
    if (found && !found->rows.empty()) failpoint("lane.after_claim");
    bool can_send = false;
    bool quiet = false;
    {
        const std::lock_guard lock(mutex_);
        core_.end_look(began, clock_.now(), std::move(found));
        can_send = core_.can_send();
        quiet = core_.quiet();
    }
    if (can_send) signals_.send.poke();
    sleep_or_wake(quiet);
    return true;
}

/// The one look that run_once makes, and those that must come before it.
void Relay::take_once() {
    const Instant deadline = clock_.now() + kOncePatience;
    while (!hurried() && clock_.now() < deadline) {
        read_once();
        Instant next;
        {
            const std::lock_guard lock(mutex_);
            if (!core_.look_left()) return;
            next = core_.next_look(clock_.now());
        }
        signals_.take.wait_until(std::min({next, deadline, clock_.now() + kStopCheck}));
    }
}

/// Between the last look and the moment a writer sees that this relay sleeps, something may be committed or written: so
/// one more look follows, and others while those writers are open.
void Relay::sleep_or_wake(bool quiet) {
    if (listener_ == nullptr || quiet == asleep_) return;
    const Result<void> answer = timed("set_asleep", [&] { return outbox_.set_asleep(options_.owner, quiet); });
    const std::lock_guard lock(mutex_);
    if (!answer) return core_.database_failed(clock_.now(), "set_asleep", answer.error(), 0);
    asleep_ = quiet;
    if (asleep_) core_.fell_asleep(clock_.now());
}

// --- sending -------------------------------------------------------------------------------------------------------

Instant Relay::send() {
    inbox_.take(answers_);
    if (!answers_.empty()) failpoint("lane.after_send");
    bool can_look = false;
    bool settle_due = false;
    bool leaving = false;
    bool draining = false;
    Instant wake_at;
    {
        const std::lock_guard lock(mutex_);
        const Instant now = clock_.now();
        draining = core_.draining();
        const bool none_waited = core_.settled_all();
        if (!answers_.empty()) core_.outcomes(now, answers_);
        core_.send(now, batch_);
        can_look = core_.can_look(now);
        settle_due = core_.settle_due(now) || (none_waited && !core_.settled_all());
        leaving = core_.shards().any_leaving();
        wake_at = core_.next_send(now);
    }
    if (!batch_.empty()) {
        failpoint("lane.before_send");
        sink_.send(batch_, inbox_);
    }
    if (settle_due) signals_.settle.poke();
    if (can_look) signals_.take.poke();
    if (leaving) signals_.keep.poke();
    if (draining) {
        sends_ended_ = true;
        signals_.stopping.poke();
    }
    return wake_at;
}

// --- settling ------------------------------------------------------------------------------------------------------

Instant Relay::settle() {
    std::span<const store::EventSettlement> settlements;
    {
        const std::lock_guard lock(mutex_);
        const Instant now = clock_.now();
        settlements = core_.begin_settle(now);
        if (settlements.empty()) return core_.next_settle(now);
    }
    failpoint("lane.before_settle");
    const auto answer = timed("settle", [&] { return outbox_.settle(options_.owner, settlements); });
    bool can_look = false;
    bool leaving = false;
    {
        const std::lock_guard lock(mutex_);
        core_.end_settle(clock_.now(), answer);
        can_look = core_.can_look(clock_.now());
        leaving = core_.shards().any_leaving();
    }
    if (can_look) signals_.take.poke();
    if (leaving) signals_.keep.poke();
    signals_.stopping.poke();
    return clock_.now();
}

// --- beginning and end ---------------------------------------------------------------------------------------------

void Relay::begin_taking() {
    if (!options_.listen) return;
    listener_ = outbox_.listen([this] {
        {
            const std::lock_guard lock(mutex_);
            core_.wake(clock_.now());
        }
        signals_.take.poke();
    });
}

void Relay::drain() {
    const std::lock_guard lock(mutex_);
    core_.drain();
}

std::size_t Relay::at_sink() const {
    const std::lock_guard lock(mutex_);
    return core_.at_sink();
}

void Relay::cut_off() {
    const std::lock_guard lock(mutex_);
    core_.cut_off();
}

bool Relay::all_settled() const {
    const std::lock_guard lock(mutex_);
    return core_.settled_all();
}

void Relay::abandon_settles() {
    const std::lock_guard lock(mutex_);
    core_.abandon();
}

void Relay::give_back() {
    if (!tended_) return;
    const Result<void> answer = timed("leave", [&] { return outbox_.leave(options_.owner); });
    const std::lock_guard lock(mutex_);
    if (!answer) core_.database_failed(clock_.now(), "leave", answer.error(), 0);
}

void Relay::prepare_once() {
    core_.look_once();
    keep();
}

bool Relay::at_work() const {
    const std::lock_guard lock(mutex_);
    return core_.unfinished() > 0 && !core_.draining() && !core_.only_waiting(clock_.now());
}

pipeline::LaneTotals Relay::totals() const {
    const std::lock_guard lock(mutex_);
    return core_.totals();
}

}  // namespace deliverd::relay
