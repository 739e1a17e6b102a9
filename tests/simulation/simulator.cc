#include "simulator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lane/stages.h"
#include "world.h"

namespace deliverd::simulation {

namespace {

constexpr Duration kFaultyPhase = std::chrono::minutes(20);
constexpr std::uint64_t kMostSteps = 200'000;  // a run that takes more is stuck
constexpr int kForgottenPart = 10;             // a worker may hold a row without knowing it for this part of a lease

/// One process with one lane.
struct Worker {
    Worker(World& world, lane::LaneOptions options, std::uint64_t seed)
        : sink(std::make_unique<SimulatedSink>(world)),
          outbox(world),
          control(world),
          shared(std::move(options), outbox, *sink, world, observer, log, control),
          fetch(shared, seed),
          send(shared, seed + 1),
          settle(shared, seed + 2),
          renew(shared) {
        outbox.compare_with(shared.book);
    }

    Instant step(std::uint64_t stage) {
        switch (stage) {
            case 0:
                return fetch.step();
            case 1:
                return send.step();
            case 2:
                return settle.step();
            default:
                return renew.step();
        }
    }

    pipeline::Observer observer;
    NullLog log;
    std::unique_ptr<SimulatedSink> sink;  // outlives the worker while a request is in flight
    FaultyOutbox outbox;
    pipeline::Control control;
    lane::Shared shared;
    lane::FetchStage fetch;
    lane::SendStage send;
    lane::SettleStage settle;
    lane::RenewStage renew;
    Duration paused_until{};
};

class Run {
public:
    Run(std::uint64_t seed, const Faults& faults) : world_(seed, faults) {
        world_.report.seed = seed;
        options_.batch_size = static_cast<std::int32_t>(1 + world_.random.below(8));
        options_.parallelism = static_cast<std::int32_t>(1 + world_.random.below(8));
        options_.lease = std::chrono::seconds(3 + world_.random.below(60));
        options_.retry = RetryPolicy::leases(static_cast<std::int32_t>(2 + world_.random.below(5)));
        options_.settle_patience = options_.lease * 4;
        options_.throttle = world_.random.below(2) == 0;
        if (world_.random.below(2) == 0) {
            options_.rescue_interval = std::chrono::seconds(1 + world_.random.below(60));
            world_.outbox.claims_expired = false;
        }
        world_.lease = options_.lease;
        world_.throttled = options_.throttle;
        world_.report.rows = 1 + world_.random.below(30);
        for (std::uint64_t i = 0; i < world_.report.rows; ++i) {
            const bool at_once = world_.random.below(2) == 0;
            arrivals_.push_back(at_once ? Duration::zero() : world_.up_to(options_.lease * 6));
        }
        std::sort(arrivals_.begin(), arrivals_.end());
        world_.run_others = [this](Duration span) { run_others(span); };
        for (std::uint64_t i = 1 + world_.random.below(3); i > 0; --i) workers_.push_back(make_worker());
    }

    Report run() {
        while (!at_rest() && ++steps_ < kMostSteps) {
            if (world_.elapsed > kFaultyPhase) world_.faults_on = false;
            enqueue_arrivals();
            inject();
            deliver_events();
            if (!round()) advance();
        }
        if (!at_rest()) violation("stuck: rows are still open after all faults ended");
        check();
        return std::move(world_.report);
    }

private:
    std::unique_ptr<Worker> make_worker() {
        lane::LaneOptions options = options_;
        options.worker_id = "w" + std::to_string(++incarnations_);
        return std::make_unique<Worker>(world_, std::move(options), world_.random.next());
    }

    void enqueue_arrivals() {
        while (!arrivals_.empty() && arrivals_.front() <= world_.elapsed) {
            arrivals_.pop_front();
            // Some rows have equal content.
            world_.history[world_.outbox.enqueue("k" + std::to_string(world_.random.below(world_.report.rows * 2)))];
        }
    }

    /// A worker that was asked to stop and has no work left gives back its unsent rows. Another one replaces it.
    void replace_drained() {
        for (auto& worker : workers_) {
            if (!worker->control.draining || !worker->send.drained() || !worker->settle.drained()) continue;
            const std::vector<std::int64_t> unsent = worker->send.take_unsent();
            if (!unsent.empty()) (void)world_.outbox.release(worker->shared.options.worker_id, unsent);
            ++world_.report.drains;
            worker = make_worker();
        }
    }

    void crash(std::size_t index) {
        ++world_.report.crashes;
        world_.note("crash", index);
        for (const auto& [id, row] : world_.outbox.rows()) {
            if (row.locked_by == workers_[index]->shared.options.worker_id) ++world_.history[id].excuses;
        }
        wires_.push_back(std::move(workers_[index]->sink));
        workers_[index] = make_worker();
    }

    void inject() {
        const auto index = static_cast<std::size_t>(world_.random.below(workers_.size()));
        if (world_.happens(world_.faults.crash)) crash(index);
        if (world_.happens(world_.faults.drain)) workers_[index]->control.draining = true;
        replace_drained();
        if (world_.happens(world_.faults.pause)) {
            workers_[index]->paused_until = world_.elapsed + world_.up_to(options_.lease * 3);
        }
        if (world_.happens(world_.faults.clock_jump)) {
            const double reach = to_seconds(options_.lease) * 2;
            world_.database_offset += from_seconds(world_.random.between(-reach, reach));
        }
    }

    void deliver_events() {
        for (const auto& worker : workers_) worker->sink->run_events(true);
        for (const auto& wire : wires_) wire->run_events(false);
        std::erase_if(wires_, [](const auto& wire) { return wire->empty(); });
    }

    /// While it exists, the stage whose turn it was waits. Then the round continues from there.
    class Interlude {
    public:
        explicit Interlude(Run& run) : run_(run), place_(run.place_), wake_at_(run.wake_at_) {
            run_.waiting_place_ = place_;
        }
        ~Interlude() {
            run_.waiting_place_.reset();
            run_.place_ = place_;
            run_.wake_at_ = wake_at_;
        }
        Interlude(const Interlude&) = delete;
        Interlude& operator=(const Interlude&) = delete;

    private:
        Run& run_;
        const std::size_t place_;
        const Duration wake_at_;
    };

    /// One stage waits for an answer; all others work until it arrives.
    void run_others(Duration span) {
        const Interlude interlude(*this);
        const Duration end = world_.elapsed + span;
        while (world_.elapsed < end && ++steps_ < kMostSteps) {
            enqueue_arrivals();
            deliver_events();
            if (!round()) advance(end);
        }
    }

    /// Runs each stage of every worker once, in random order. Returns false if none had work.
    bool round() {
        const std::size_t stages = workers_.size() * 4;
        const auto first = static_cast<std::size_t>(world_.random.below(stages));
        const std::size_t stride = world_.random.below(2) == 0 ? 1 : stages - 1;
        bool progressed = false;
        wake_at_ = Duration::max();
        for (std::size_t i = 0; i < stages; ++i) {
            place_ = (first + i * stride) % stages;
            const std::size_t index = place_ / 4;
            Worker& worker = *workers_[index];
            if (place_ == waiting_place_) continue;
            if (worker.paused_until > world_.elapsed) {
                wake_at_ = std::min(wake_at_, worker.paused_until);
                continue;
            }
            try {
                const Instant wake_at = worker.step(place_ % 4);
                progressed = progressed || wake_at <= world_.now();
                wake_at_ = std::min(wake_at_, std::max(wake_at, world_.now()) - Instant(std::chrono::hours(1)));
            } catch (const Crash&) {
                if (waiting_place_ && *waiting_place_ / 4 == index) throw;  // it dies while it waits
                crash(index);
                progressed = true;
            }
        }
        return progressed;
    }

    void advance(Duration at_most = Duration::max()) {
        Duration next = std::min(wake_at_, at_most);
        for (const auto& worker : workers_) next = std::min(next, worker->sink->next_event());
        for (const auto& wire : wires_) next = std::min(next, wire->next_event());
        if (nothing_under_way()) next = std::max(next, next_due());  // nothing happens before then
        if (!arrivals_.empty()) next = std::min(next, arrivals_.front());
        world_.elapsed = std::max(next, world_.elapsed + std::chrono::microseconds(1));
        check_forgotten();
    }

    [[nodiscard]] bool nothing_under_way() const {
        return wires_.empty() && std::all_of(workers_.begin(), workers_.end(),
                                             [](const auto& worker) { return worker->shared.book.size() == 0; });
    }

    /// When the next open row can be claimed: its due time, or the end of a dead worker's lease.
    [[nodiscard]] Duration next_due() const {
        Duration next = Duration::max();
        for (const auto& [id, row] : world_.outbox.rows()) {
            if (row.status != "pending") continue;
            const Duration due = row.locked_by ? std::max(row.due, row.locked_at + options_.lease) : row.due;
            next = std::min(next, due - world_.database_offset);
        }
        return next == Duration::max() ? Duration::zero() : next;
    }

    [[nodiscard]] bool at_rest() const {
        return arrivals_.empty() && nothing_under_way() &&
               std::all_of(world_.outbox.rows().begin(), world_.outbox.rows().end(),
                           [](const auto& entry) { return entry.second.status != "pending"; });
    }

    void violation(std::string what) { world_.report.violations.push_back(std::move(what)); }
    void check_forgotten();
    void check();
    void check_settlements();
    void check_equal_content();

    World world_;
    lane::LaneOptions options_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::deque<std::unique_ptr<SimulatedSink>> wires_;  // what crashed workers had sent
    std::deque<Duration> arrivals_;                     // when the remaining rows are enqueued
    std::map<std::int64_t, Duration> forgotten_at_;     // rows held by a worker that has forgotten them
    std::uint64_t incarnations_ = 0;
    std::uint64_t steps_ = 0;
    std::size_t place_ = 0;                     // of the stage whose turn it is
    std::optional<std::size_t> waiting_place_;  // of the one that waits for an answer
    Duration wake_at_{};
};

/// If a running worker has forgotten a row that it holds, the row waits for its lease without need.
void Run::check_forgotten() {
    for (const auto& [id, row] : world_.outbox.rows()) {
        const bool forgotten =
            row.status == "pending" && row.locked_by &&
            std::any_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
                return worker->shared.options.worker_id == *row.locked_by && worker->outbox.forgot(id);
            });
        if (!forgotten) {
            forgotten_at_.erase(id);
        } else if (world_.elapsed - forgotten_at_.try_emplace(id, world_.elapsed).first->second >
                   options_.lease / kForgottenPart) {
            violation("row " + std::to_string(id) + " is held by a worker that has forgotten it");
            forgotten_at_[id] = Duration::max();  // reported once
        }
    }
}

void Run::check() {
    check_settlements();
    if (workers_.size() == 1) check_equal_content();
    for (const auto& [id, row] : world_.outbox.rows()) {
        const RowHistory& history = world_.history.at(id);
        const std::string name = "row " + std::to_string(id) + ": ";
        const bool an_equal_was_accepted = std::any_of(
            world_.outbox.rows().begin(), world_.outbox.rows().end(), [&, key = row.dedup_key](auto& other) {
                return other.second.dedup_key == key && world_.history.at(other.first).accepted > 0;
            });
        if (row.status == "sent" && !an_equal_was_accepted)
            violation(name + "lost: sent, but the receiver never got it");
        const bool gave_up = row.failures >= options_.retry.dead_at_failures || history.refused;
        if (row.status == "dead" && !gave_up) violation(name + "dead without a reason");
        if (static_cast<std::uint64_t>(row.failures) > history.failed_sends)
            violation(name + "an attempt counted twice");
        const std::uint64_t repetitions = history.accepted > 0 ? history.accepted - 1 : 0;
        if (repetitions > history.excuses)
            violation(name + "delivered again without a crash, ambiguous send, lost settle or takeover");
    }
    for (const store::AuditNote& note : world_.outbox.notes) {
        if (note.reason == "outbox_flush_conflict") ++world_.report.conflicts;
    }
}

/// One lane sends equal content once, plus the repetitions that a row's history allows.
void Run::check_equal_content() {
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_key;  // accepted, excuses
    for (const auto& [id, row] : world_.outbox.rows()) {
        by_key[row.dedup_key].first += world_.history.at(id).accepted;
        by_key[row.dedup_key].second += world_.history.at(id).excuses;
    }
    for (const auto& [key, counts] : by_key) {
        if (counts.first > 1 + counts.second) violation("content " + key + " was sent more than once by one lane");
    }
}

void Run::check_settlements() {
    std::map<std::int64_t, int> ended;
    std::map<std::int64_t, std::int32_t> failures;
    for (const lane::FakeOutbox::Applied& applied : world_.outbox.applied) {
        const store::Settlement& settlement = applied.settlement;
        if (applied.worker != applied.owner_by_log) violation("row settled by a worker that no longer held it");
        if (settlement.kind != store::SettleKind::retry) ++ended[settlement.id];
        const bool failed = settlement.kind == store::SettleKind::retry || settlement.kind == store::SettleKind::dead;
        if (failed) ++failures[settlement.id];
    }
    for (const auto& [id, times] : ended) {
        if (times != 1) violation("row " + std::to_string(id) + " ended more than once");
    }
    for (const auto& [id, row] : world_.outbox.rows()) {
        if (row.failures != failures[id])
            violation("row " + std::to_string(id) + ": its failures were not counted exactly once");
    }
}

}  // namespace

Faults Faults::from_seed(std::uint64_t seed) {
    SeededRandom random(seed ^ 0xFA17);
    const auto chance = [&random](double highest) {
        return random.below(3) == 0 ? 0.0 : highest * random.unit() * random.unit();
    };
    Faults faults;
    faults.crash = chance(0.02);
    faults.crash_in_call = chance(0.1);
    faults.pause = chance(0.02);
    faults.call_fails = chance(0.4);
    faults.answer_lost = chance(0.3);
    faults.slow_call = chance(0.2);
    faults.settle_refused = chance(0.2);
    faults.row_busy = chance(0.3);
    faults.drain = chance(0.01);
    faults.clock_jump = chance(0.02);
    faults.send_fails = chance(0.5);
    faults.send_refused = chance(0.1);
    faults.send_limited = chance(0.3);
    faults.send_ambiguous = chance(0.4);
    faults.slow_send = chance(0.5);
    faults.late_answer = chance(0.2);
    return faults;
}

Report simulate(std::uint64_t seed, const Faults& faults) {
    return Run(seed, faults).run();
}

}  // namespace deliverd::simulation
