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
      core_(options_, random.next(), observer, log),
      reporter_(core_.reporter()) {}

Relay::~Relay() {
    stop(Duration::zero());
}

// --- shards --------------------------------------------------------------------------------------------------------

Instant Relay::keep() {
    release_shards();
    const Instant began = clock_.now();
    const Instant next = with_core([](RelayCore& core) { return core.next_tend(); });
    if (began < next) return std::min(next, began + pipeline::kLongestNap);
    tended_ = true;
    const auto answer =
        reporter_.timed(clock_, "tend", [&] { return outbox_.tend(options_.worker_id, options_.lease); });
    with_core([&](RelayCore& core) { core.tended(began, clock_.now(), answer); });
    control_.signals.take.poke();
    control_.signals.send.poke();
    return clock_.now();
}

void Relay::release_shards() {
    const auto leases = with_core([](RelayCore& core) { return core.begin_release(); });
    if (leases.empty()) return;
    const auto answer = reporter_.timed(clock_, "release", [&] { return outbox_.release(options_.worker_id, leases); });
    with_core([&](RelayCore& core) { core.end_release(clock_.now(), leases, answer); });
}

// --- reading -------------------------------------------------------------------------------------------------------

Instant Relay::take() {
    if (read_once()) return clock_.now();
    return with_core([&](RelayCore& core) { return core.next_poll(clock_.now()); });
}

/// False when it was not time for a poll.
bool Relay::read_once() {
    const Instant began = clock_.now();
    const auto request = with_core([&](RelayCore& core) { return core.begin_poll(began); });
    if (!request) return false;
    Result<store::EventBatch> found = reporter_.timed(clock_, "read", [&] { return outbox_.read(*request); });
    if (found && !found->rows.empty()) failpoint("lane.after_claim");
    bool can_send = false;
    bool quiet = false;
    {
        const MutexLock lock(mutex_);
        core_.end_poll(began, clock_.now(), std::move(found));
        can_send = core_.can_send();
        quiet = core_.quiet();
    }
    if (can_send) control_.signals.send.poke();
    sleep_or_wake(quiet);
    return true;
}

/// The one poll that run_once makes, and those that strict_order needs before it.
void Relay::take_once() {
    const Instant deadline = clock_.now() + kOncePatience;
    while (!hurried() && clock_.now() < deadline) {
        read_once();
        Instant next;
        {
            const MutexLock lock(mutex_);
            if (!core_.poll_left()) return;
            next = core_.next_poll(clock_.now());
        }
        control_.signals.take.wait_until(std::min({next, deadline, clock_.now() + kStopCheck}));
    }
}

/// Something may be written or committed between the last poll and the moment when writers see that this relay sleeps:
/// so one more poll follows, and others while those writers are open.
void Relay::sleep_or_wake(bool quiet) {
    if (listener_ == nullptr || quiet == asleep_) return;
    const auto set = [&] { return outbox_.set_asleep(options_.worker_id, quiet); };
    if (!reporter_.call(clock_, "set_asleep", 0, set)) return;
    asleep_ = quiet;
    const MutexLock lock(mutex_);
    if (asleep_) core_.fell_asleep(clock_.now());
}

// --- sending -------------------------------------------------------------------------------------------------------

Instant Relay::send() {
    control_.inbox.take(answers_);
    if (!answers_.empty()) failpoint("lane.after_send");
    bool can_poll = false;
    bool settle_due = false;
    bool leaving = false;
    Instant wake_at;
    {
        const MutexLock lock(mutex_);
        const Instant now = clock_.now();
        const bool none_waited = core_.settled_all();
        if (!answers_.empty()) core_.outcomes(now, answers_);
        core_.send(now, batch_);
        can_poll = core_.can_poll(now);
        settle_due = core_.settle_due(now) || (none_waited && !core_.settled_all());
        leaving = core_.shards().any_leaving();
        wake_at = core_.next_send(now);
    }
    if (!batch_.empty()) {
        failpoint("lane.before_send");
        sink_.send(batch_, control_.inbox);
    }
    if (settle_due) control_.signals.settle.poke();
    if (can_poll) control_.signals.take.poke();
    if (leaving) control_.signals.keep.poke();
    return wake_at;
}

// --- settling ------------------------------------------------------------------------------------------------------

Instant Relay::settle() {
    std::span<const store::EventSettlement> settlements;
    {
        const MutexLock lock(mutex_);
        const Instant now = clock_.now();
        settlements = core_.begin_settle(now);
        if (settlements.empty()) return core_.next_settle(now);
    }
    failpoint("lane.before_settle");
    const auto answer =
        reporter_.timed(clock_, "settle", [&] { return outbox_.settle(options_.worker_id, settlements); });
    bool can_poll = false;
    bool leaving = false;
    {
        const MutexLock lock(mutex_);
        core_.end_settle(clock_.now(), answer);
        can_poll = core_.can_poll(clock_.now());
        leaving = core_.shards().any_leaving();
    }
    if (can_poll) control_.signals.take.poke();
    if (leaving) control_.signals.keep.poke();
    control_.signals.stopping.poke();
    return clock_.now();
}

// --- beginning and end ---------------------------------------------------------------------------------------------

void Relay::begin_taking() {
    if (!options_.listen) return;
    listener_ = outbox_.listen([this] {
        with_core([&](RelayCore& core) { core.wake(clock_.now()); });
        control_.signals.take.poke();
    });
}

void Relay::leave() {
    with_core([](RelayCore& core) { core.abandon(); });
    if (!tended_) return;
    static_cast<void>(reporter_.call(clock_, "leave", 0, [&] { return outbox_.leave(options_.worker_id); }));
}

void Relay::prepare_once() {
    with_core([](RelayCore& core) { core.poll_once(); });
    keep();
}

bool Relay::at_work() const {
    const MutexLock lock(mutex_);
    return core_.unfinished() > 0 && !core_.draining() && !core_.only_waiting(clock_.now());
}

}  // namespace deliverd::relay
