// The simulated surroundings of the relays: time, the event table with its writers, and the receiver.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "message/message.h"
#include "relay/relay_core.h"
#include "relay/testing/fake_events.h"
#include "relay_simulator.h"

namespace deliverd::simulation {

/// One attempt to send an event.
struct Attempt {
    std::int64_t id = 0;
    std::uint64_t relay = 0;
    std::int64_t token = 0;
    bool arrives = false;
    bool ambiguous = false;
};

class RelayWorld {
public:
    RelayWorld(std::uint64_t seed, const RelayFaults& with_faults) : random(seed), faults(with_faults) {
        report.seed = seed;
    }

    [[nodiscard]] Instant now() const { return Instant(std::chrono::hours(1)) + elapsed; }
    bool happens(double chance) { return faults_on && chance > 0 && random.unit() < chance; }
    Duration up_to(Duration longest) { return from_seconds(random.between(0, to_seconds(longest))); }
    void note(std::string_view what, std::uint64_t value) {
        for (const char c : what) mix(static_cast<std::uint64_t>(c));
        mix(value);
        mix(static_cast<std::uint64_t>(elapsed.count()));
    }
    void violation(std::string what) { report.violations.push_back(std::move(what)); }

    /// Runs `event` when `wait` is over, after everything that was due earlier.
    void after(Duration wait, std::function<void()> event) {
        events.emplace(std::pair(elapsed + wait, ++event_number_), std::move(event));
    }
    /// Returns false if there is none.
    bool run_next() {
        if (events.empty()) return false;
        const auto first = events.begin();
        elapsed = std::max(elapsed, first->first.first);
        const std::function<void()> event = std::move(first->second);
        events.erase(first);
        event();
        return true;
    }

    SeededRandom random;
    RelayFaults faults;
    bool faults_on = true;
    Duration elapsed{};
    Duration lease{};
    std::unique_ptr<relay::FakeEvents> table;
    std::map<std::pair<Duration, std::uint64_t>, std::function<void()>> events;
    RelayReport report;

    std::map<std::int64_t, std::vector<Attempt>> attempts;            // by event
    std::map<std::string, std::vector<std::int64_t>> first_arrivals;  // by aggregate, in order
    std::map<std::int64_t, std::uint64_t> arrived;                    // times
    static constexpr std::string_view kGoneTopic = "b";
    /// Whether nothing of this aggregate can be delivered during the faults.
    [[nodiscard]] bool is_gone(const std::string& aggregate) const {
        if (!faults_on || !aggregate.starts_with(kGoneTopic)) return false;
        return faults.topic_gone || (faults.part_gone && (std::stoi(aggregate.substr(1)) / 4) % 2 == 0);
    }
    Duration usual_send = std::chrono::milliseconds(20);
    std::map<std::string, Duration> away_until;   // topics
    std::set<std::int64_t> returned;              // events that were dead once
    std::set<std::int64_t> returned_untried;      // … and not tried since
    std::map<std::uint64_t, bool> faulty_relays;  // those that crashed, paused, or had database faults

    void arrive(std::int64_t id, const std::string& aggregate);

private:
    void mix(std::uint64_t value) { report.trace = (report.trace ^ value) * 0x100000001B3ULL; }
    std::uint64_t event_number_ = 0;
};

/// One process with one relay.
class SimulatedRelay {
public:
    SimulatedRelay(RelayWorld& world, std::uint64_t number, const relay::RelayOptions& options);
    SimulatedRelay(const SimulatedRelay&) = delete;
    SimulatedRelay& operator=(const SimulatedRelay&) = delete;

    /// Does everything that can be done now, and schedules its next call.
    void pump();
    void pause(Duration span);
    void drain() { core_->drain(); }
    /// Whether a relay that was asked to stop has finished and left the lane.
    [[nodiscard]] bool gone() const { return gone_; }
    [[nodiscard]] const std::string& owner() const { return options_.worker_id; }
    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] const relay::RelayCore& core() const { return *core_; }
    void wake() { core_->wake(world_.now()); }

private:
    template <typename Answer>
    void call(std::string_view name, std::function<Result<Answer>()> effect, std::function<void(Result<Answer>)> then);
    template <typename Event>
    void later(Duration wait, Event event);
    void tend();
    void poll();
    void remember_returned(std::span<const store::ShardLease> asked, const store::EventBatch& batch);
    void check_returned(const Message& message);
    void send();
    void start(const Message& message);
    void settle();
    void leave_when_done();
    void wake_later();
    void check();

    RelayWorld& world_;
    const std::uint64_t number_;
    const relay::RelayOptions options_;
    pipeline::Observer observer_;
    NullLog log_;
    std::unique_ptr<relay::RelayCore> core_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    Duration paused_until_{};
    Duration wakes_at_ = Duration::max();
    bool tending_ = false;
    bool gone_ = false;
    Duration not_tried_until_{};
    std::map<std::int64_t, store::ShardLease> returned_;  // dead events that were put back and that a poll has read

public:
    ~SimulatedRelay() { *alive_ = false; }
};

}  // namespace deliverd::simulation
