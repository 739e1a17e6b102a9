// One ordered lane: events from an EventOutbox, through a Sink, and back as settlements, those of one aggregate in the
// order they were written.
//
//     tend shards ─▶ read ─▶ (order book: one of an aggregate at the sink) ─▶ send ─▶ outcomes ─▶ settle
//
// RelayCore (relay_core.h) decides everything, without threads and without I/O; the simulator drives the same core. The
// steps here carry its requests to the ports and bring back the answers, on the engine's threads (pipeline/engine.h).
//
// Writers notify only idle relays, because a commit that notifies takes a lock of the whole database. A relay that
// becomes idle says so in deliverd.relays, polls once more and then waits; the trigger notifies only while one is idle.
// Under load none is, and no commit pays. A writer that wrote before and commits afterwards notifies no relay; so the
// relay keeps polling until the transactions that were open when it fell asleep have ended (PollPlanner::fell_asleep).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "pipeline/control.h"
#include "pipeline/engine.h"
#include "relay/relay_core.h"
#include "relay/relay_options.h"

namespace deliverd::relay {

class Relay final : public pipeline::Engine {
    /// `call` does not call a port.
    template <typename Call>
    auto with_core(Call call) {
        const MutexLock lock(mutex_);
        return call(core_);
    }
    template <typename Call>
    auto with_core(Call call) const {
        const MutexLock lock(mutex_);
        return call(core_);
    }

public:
    /// All references outlive the relay. `random` and `clock` are used by the relay's threads only.
    Relay(RelayOptions options, store::EventOutbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
          pipeline::Observer& observer, Log& log);
    ~Relay() override;  // stop() without patience. Gives its shards back, so that no relay waits for its leases
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;

    void drain() override {
        with_core([](RelayCore& core) { core.drain(); });
        Engine::drain();
    }
    [[nodiscard]] pipeline::LaneTotals totals() const override { return reporter_.totals(); }

private:
    Instant take() override;
    Instant send() override;
    Instant settle() override;
    Instant keep() override;
    void begin_taking() override;
    void end_taking() override { listener_.reset(); }
    [[nodiscard]] std::size_t at_sink() const override {
        return with_core([](const RelayCore& core) { return core.at_sink(); });
    }
    void cut_off() override {
        with_core([](RelayCore& core) { core.cut_off(); });
    }
    [[nodiscard]] bool all_outcomes_read() const override { return control_.inbox.empty(); }
    [[nodiscard]] bool all_settled() const override {
        return with_core([](const RelayCore& core) { return core.settled_all(); });
    }
    void leave() override;
    /// With strict_order run_once() waits a few seconds at most for the open transactions that it depends on.
    void prepare_once() override;
    void take_once() override;
    [[nodiscard]] bool at_work() const override;

    void release_shards();
    bool read_once();
    void sleep_or_wake(bool quiet);

    const RelayOptions options_;
    store::EventOutbox& outbox_;

    mutable Mutex mutex_;
    RelayCore core_ GUARDED_BY(mutex_);
    pipeline::Reporter& reporter_;  // the core's

    std::unique_ptr<store::EventListener> listener_;
    bool asleep_ = false;                    // the reader's
    std::vector<pipeline::Answer> answers_;  // the sender's
    std::vector<const Message*> batch_;      // the same
    std::atomic<bool> tended_{false};
};

}  // namespace deliverd::relay
