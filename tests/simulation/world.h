// The simulated surroundings of the lanes: time, the database, the receiver, and the faults in between.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "lane/lease_book.h"
#include "lane/testing/fake_outbox.h"
#include "simulator.h"
#include "sink/sink.h"

namespace deliverd::simulation {

/// Thrown by a simulated port: the worker that called it is dead.
struct Crash {};

/// What happened to one row, as far as it explains duplicates.
struct RowHistory {
    std::uint64_t accepted = 0;      // times the receiver took it
    std::uint64_t failed_sends = 0;  // outcomes other than delivered that reached a worker
    bool refused = false;            // a permanent outcome reached a worker
    std::uint64_t excuses = 0;       // crash, ambiguous send, lost settle or takeover: each allows one repetition
};

class World final : public Clock {
public:
    World(std::uint64_t seed, const Faults& with_faults)
        : random(seed), faults(with_faults), outbox([this] { return elapsed + database_offset; }) {}

    [[nodiscard]] Instant now() const override { return Instant(std::chrono::hours(1)) + elapsed; }
    [[nodiscard]] WallTime wall_now() const override { return WallTime(std::chrono::microseconds(0)); }

    bool happens(double chance) { return faults_on && chance > 0 && random.unit() < chance; }
    Duration up_to(Duration longest) { return from_seconds(random.between(0, to_seconds(longest))); }
    void note(std::string_view what, std::uint64_t value) {
        for (const char c : what) mix(static_cast<std::uint64_t>(c));
        mix(value);
        mix(static_cast<std::uint64_t>(elapsed.count()));
    }

    SeededRandom random;
    Faults faults;
    bool faults_on = true;
    Duration elapsed{};
    Duration database_offset = std::chrono::hours(100);
    Duration lease{};
    bool throttled = false;                    // the lanes slow down when the receiver asks for it
    std::function<void(Duration)> run_others;  // time passes; all stages except the waiting one work
    bool someone_waits = false;                // for an answer; one at a time
    lane::FakeOutbox outbox;
    std::map<std::int64_t, RowHistory> history;
    Report report;

private:
    void mix(std::uint64_t value) { report.trace = (report.trace ^ value) * 0x100000001B3ULL; }
};

/// One worker's connection to the database: a call succeeds, or fails before or after it takes effect.
class FaultyOutbox final : public store::RowQueue {
public:
    explicit FaultyOutbox(World& world) : world_(world) {}

    Result<store::ClaimBatch> claim(const store::ClaimRequest& request) override;
    Result<std::vector<store::SettleAnswer>> settle(std::string_view worker_id,
                                                    std::span<const store::Settlement> settlements) override;
    Result<store::RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) override;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) override;
    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override;
    Result<void> audit(std::string_view worker_id, std::span<const store::AuditNote> notes) override;
    Result<double> lag_seconds() override { return world_.outbox.lag_seconds(); }
    Result<store::RowCounts> counts() override { return world_.outbox.counts(); }
    Result<void> ping(Duration) override { return {}; }

    /// The worker's own record of the rows that it holds; outlives every call.
    void compare_with(const lane::LeaseBook& book) { book_ = &book; }
    /// The worker was told that it holds the row and has no reason to let the lease run out, but no longer knows the
    /// row.
    [[nodiscard]] bool forgot(std::int64_t id) const;

private:
    Result<std::vector<store::SettleAnswer>> settle_free_rows(std::string_view worker_id,
                                                              std::span<const store::Settlement> settlements);
    void forget_recorded(std::string_view worker_id, std::span<const store::Settlement> settlements);
    void wait_for_answer();
    template <typename Call>
    auto faulty(std::string_view operation, Call&& call);

    World& world_;
    const lane::LeaseBook* book_ = nullptr;
    std::set<std::int64_t> told_;        // rows whose last claim was answered
    std::set<std::int64_t> unrecorded_;  // rows whose last settle failed: the lane may leave them to their leases
};

/// One worker's connection to the receiver. Decides when a send begins how and when it will end.
class SimulatedSink final : public sink::Sink {
public:
    explicit SimulatedSink(World& world) : world_(world) {}

    /// Reports a violation for each message sent while this worker had been asked to wait.
    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override;
    void stop(Duration) override {}
    Result<void> check(Duration) override { return {}; }

    [[nodiscard]] Duration next_event() const;
    /// Runs everything that is due. If `alive` is false, the receiver still takes what was sent, but its answers are
    /// lost.
    void run_events(bool alive);
    [[nodiscard]] bool empty() const { return under_way_.empty(); }

private:
    struct Send {
        std::int64_t id;
        const Message* message;
        sink::OutcomeReceiver* receiver;
        Duration reaches_receiver_at;
        Duration answered_at;
        bool taken;  // the receiver will take it
        bool reached = false;
        OutcomeKind outcome;
        bool limited = false;                   // retryable: the receiver asks for fewer requests …
        std::optional<Duration> retry_after{};  // … for this long
    };
    Send plan(const Message& message, sink::OutcomeReceiver& receiver);

    Outcome outcome_of(const Send& send);

    World& world_;
    std::vector<Send> under_way_;
    Duration paused_until_{};
};

}  // namespace deliverd::simulation
