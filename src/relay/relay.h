// One ordered lane: events from an EventOutbox, through a Sink, and back as settlements, those of one aggregate in the
// order they were written.
//
//     tend shards ─▶ read ─▶ (order book: one of an aggregate at the sink) ─▶ send ─▶ outcomes ─▶ settle
//
// Everything that is decided is in RelayCore (relay_core.h), which has no threads and does no I/O. The steps here carry
// what it wants done to the ports and bring back the answers; the threads that take them are the engine's
// (pipeline/engine.h). The simulator drives the same core.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/random.h"
#include "pipeline/engine.h"
#include "pipeline/inbox.h"
#include "relay/relay_core.h"
#include "relay/relay_options.h"

namespace deliverd::relay {

class Relay final : public pipeline::Engine {
public:
    /// All references outlive the relay. `random` and `clock` are used by the relay's threads only.
    Relay(RelayOptions options, store::EventOutbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
          pipeline::Observer& observer, Log& log);
    ~Relay() override;  // stop() without patience. Gives its shards back, so that others need not wait for the leases
    Relay(const Relay&) = delete;
    Relay& operator=(const Relay&) = delete;

    void drain() override;
    [[nodiscard]] pipeline::LaneTotals totals() const override;

private:
    Instant take() override;
    Instant send() override;
    Instant settle() override;
    Instant keep() override;
    void begin_taking() override;
    void end_taking() override { listener_.reset(); }
    [[nodiscard]] bool sends_ended() const override { return sends_ended_.load(); }
    [[nodiscard]] std::size_t at_sink() const override;
    void cut_off() override;
    [[nodiscard]] bool all_outcomes_read() const override { return inbox_.empty(); }
    [[nodiscard]] bool all_settled() const override;
    void abandon_settles() override;
    void give_back() override;
    /// Takes its share of the shards, relays one batch, leaves. With strict_order it waits a few seconds at most for
    /// the transactions that it must wait for.
    void prepare_once() override;
    void take_once() override;
    [[nodiscard]] bool at_work() const override;

    template <typename Call>
    auto timed(std::string_view operation, Call&& call) {
        return pipeline::timed(clock_, observer_, operation, std::forward<Call>(call));
    }
    void release_shards();
    bool read_once();
    void sleep_or_wake(bool quiet);

    const RelayOptions options_;
    store::EventOutbox& outbox_;
    pipeline::Observer& observer_;

    mutable std::mutex mutex_;  // guards core_; nobody holds it while calling a port
    RelayCore core_;
    pipeline::Inbox inbox_;

    std::unique_ptr<store::EventListener> listener_;
    bool asleep_ = false;                    // the reader's
    std::vector<pipeline::Answer> answers_;  // the sender's
    std::vector<const Message*> batch_;      // the same
    std::atomic<bool> sends_ended_{false};   // the sender has seen that it is to send nothing more
    std::atomic<bool> tended_{false};
};

}  // namespace deliverd::relay
