#include "relay_simulator.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "relay_world.h"

namespace deliverd::simulation {

namespace {

constexpr Duration kFaultyPhase = std::chrono::seconds(40);
constexpr Duration kLongestRun = std::chrono::minutes(60);
constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr std::uint64_t kMostSteps = 2'000'000;  // a run that takes more is stuck
constexpr std::size_t kMostRelays = 4;
constexpr Duration kUsualTransaction = std::chrono::milliseconds(60);  // shorter than PollPlanner::kLateWindow
constexpr Duration kLongTransaction = std::chrono::seconds(8);
constexpr Duration kWatchedTransaction = relay::PollPlanner::kWatchedClosely;
constexpr Duration kUsualDraw = std::chrono::microseconds(50);  // from an id to the transaction's number
constexpr Duration kSlowDraw = relay::PollPlanner::kLateWindow - std::chrono::milliseconds(1);
constexpr std::uint64_t kMostBystanders = 12;
constexpr std::uint64_t kTopics = 4;
constexpr Duration kSlowReceiver = std::chrono::milliseconds(800);  // events are written faster than they can be sent
constexpr Duration kHeldUp = std::chrono::seconds(15);  // an open event older than this when the faults end was held up
constexpr Duration kCountedWithin = std::chrono::seconds(10);  // while others are delivered
constexpr std::size_t kBodyBytes = 10;

class Run {
public:
    Run(std::uint64_t seed, const RelayFaults& faults, const RelaySabotage& sabotage) : world_(seed, faults) {
        SeededRandom& random = world_.random;
        options_.batch_size = static_cast<std::int32_t>(1 + random.below(12));
        options_.parallelism = static_cast<std::int32_t>(1 + random.below(12));
        const bool gone = faults.topic_gone || faults.part_gone;
        crowded_ = faults.full_hands || (random.below(4) == 0 && !gone);
        if (crowded_) {
            options_.batch_size = static_cast<std::int32_t>(1 + random.below(3));
            options_.parallelism = static_cast<std::int32_t>(1 + random.below(3));
            world_.usual_send = kSlowReceiver / (1 << random.below(6));
        }
        // The relay sees that other events are delivered only if it may send more than one at a time.
        if (faults.part_gone) options_.parallelism += faults.one_topic ? 31 : 3;  // with one topic, also several probes
        options_.lease = std::chrono::seconds(1 + random.below(6));
        // Polls have a limit of bytes, too.
        if (random.below(3) == 0 && !gone) options_.held_bytes = 1 + random.below(8 * kBodyBytes);
        options_.retry = RetryPolicy{.base_seconds = 0.02 + random.unit() * 2,
                                     .cap_seconds = 6,
                                     .jitter = 0.2,
                                     .dead_at_failures = static_cast<std::int32_t>(2 + random.below(12))};
        options_.settle_patience = std::chrono::hours(10);
        options_.block_behind_dead = random.below(4) == 0;
        options_.strict_order = random.below(4) == 0;
        world_.report.strict_order = options_.strict_order;
        options_.topic = *TopicTemplate::parse("{event_type_raw}");
        world_.lease = options_.lease;
        relay::FakeEvents::Options table;
        table.block_behind_dead = options_.block_behind_dead;
        table.hides_writers = sabotage.hides_writers;
        table.keeps_back_behind_due = random.below(2) == 0;
        table.without_fence = sabotage.without_fence;
        table.typed = true;
        world_.table = std::make_unique<relay::FakeEvents>(table, [this] { return world_.elapsed; });
        world_.table->body = std::string(kBodyBytes, 'x');
        const std::uint64_t aggregates = (crowded_ || gone ? 20 : 1) + random.below(30);
        for (std::uint64_t i = 0; i < aggregates; ++i) {
            const std::string type = faults.one_topic ? std::string(RelayWorld::kGoneTopic)
                                                      : std::string(1, static_cast<char>('a' + i % kTopics));
            plan_writer(type + std::to_string(i), 1 + random.below(15));
        }
        for (std::uint64_t i = random.below(kMostBystanders); i > 0; --i) plan_bystander();
        for (std::uint64_t i = 1 + random.below(kMostRelays); i > 0; --i) add_relay();
        tick();
    }

    RelayReport run() {
        while (!at_rest_ && ++steps_ < kMostSteps && world_.elapsed < kLongestRun && world_.run_next()) {
        }
        if (!at_rest_) world_.violation("stuck: events are still open after all faults ended");
        while (world_.elapsed < rest_at_ + options_.lease * 4 && world_.run_next()) {
        }
        check();
        return std::move(world_.report);
    }

private:
    void add_relay() {
        relay::RelayOptions options = options_;
        options.worker_id = "relay-" + std::to_string(++relays_made_);
        relays_.push_back(std::make_unique<SimulatedRelay>(world_, relays_made_, options));
        relays_.back()->pump();
    }

    // --- writers -----------------------------------------------------------------------------------------------

    /// Writers of one aggregate wait for each other, except with strict_order.
    void plan_writer(const std::string& aggregate, std::uint64_t events) {
        const bool together = world_.random.below(3) == 0;
        writing_ += events;
        if (!options_.strict_order) {
            return world_.after(together ? Duration::zero() : world_.up_to(kFaultyPhase / 2),
                                [this, aggregate, events] { write(aggregate, events); });
        }
        for (std::uint64_t i = 0; i < events; ++i) {
            world_.after(world_.up_to(kFaultyPhase / 2), [this, aggregate] { write(aggregate, 1); });
        }
    }

    /// A transaction that writes no events.
    void plan_bystander() {
        world_.after(world_.up_to(kFaultyPhase / 2), [this] {
            const std::uint64_t transaction = world_.table->begin_transaction();
            world_.after(world_.up_to(kLongTransaction),
                         [=, this] { world_.table->end_transaction(transaction, true); });
        });
    }

    /// Its transaction has a number before it draws the id (it locked the aggregate's row, or wrote something else), or
    /// gets it a moment later.
    void write(const std::string& aggregate, std::uint64_t left) {
        if (left == 0) return;
        if (world_.random.below(3) > 0) {
            const std::uint64_t transaction = world_.table->begin_transaction();
            const bool idle = world_.random.below(8) == 0;
            return world_.after(world_.up_to(idle ? kLongTransaction : kUsualDraw), [=, this] {
                const std::int64_t id = world_.table->draw(aggregate, begun());
                world_.table->write(id, transaction);
                finish(aggregate, left, id, transaction);
            });
        }
        const std::int64_t id = world_.table->draw(aggregate, begun());
        const bool slow = world_.random.below(4) == 0;
        world_.after(world_.up_to(slow ? kSlowDraw : kUsualDraw), [=, this] {
            const std::uint64_t transaction = world_.table->begin_transaction();
            world_.table->write(id, transaction);
            finish(aggregate, left, id, transaction);
        });
    }

    /// How long a transaction did other things, or waited for a lock, before it wrote. Its events seem to be as old.
    Duration begun() { return world_.up_to(world_.random.below(4) == 0 ? kLongTransaction : kUsualDraw); }

    void finish(const std::string& aggregate, std::uint64_t left, std::int64_t id, std::uint64_t transaction) {
        const bool is_long = world_.random.below(12) == 0;
        const bool is_watched = crowded_ && world_.random.below(3) == 0;
        const bool committed = world_.random.below(10) > 0;
        if (is_long) ++world_.report.late_rows;
        world_.after(world_.up_to(is_long      ? kLongTransaction
                                  : is_watched ? kWatchedTransaction
                                               : kUsualTransaction),
                     [=, this] {
                         world_.table->end_transaction(transaction, committed);
                         --writing_;
                         if (committed) was_committed(aggregate, id);
                         const bool waited = world_.random.below(3) == 0;  // the next one waits for this one's lock
                         const bool quick = world_.random.below(2) == 0;
                         const Duration pause = quick ? std::chrono::milliseconds(5) : std::chrono::seconds(2);
                         world_.after(waited ? Duration::zero() : world_.up_to(pause),
                                      [=, this] { write(aggregate, left - 1); });
                     });
    }

    void was_committed(const std::string& aggregate, std::int64_t id) {
        world_.note("commit", static_cast<std::uint64_t>(id));
        ++world_.report.events;
        std::int64_t& highest = highest_committed_[aggregate];
        if (id < highest) ++world_.report.overtaken;
        highest = std::max(highest, id);
        for (const auto& relay : relays_) {
            if (world_.random.below(2) == 0) relay->wake();
        }
    }

    // --- faults of relays ----------------------------------------------------------------------------------------

    void tick() {
        if (world_.faults_on && world_.elapsed > kFaultyPhase) {
            if (world_.faults.topic_gone || world_.faults.part_gone) check_held_up();
            world_.faults_on = false;
        }
        at_rest_ = at_rest_ || at_rest();
        std::erase_if(relays_, [](const auto& relay) { return relay->gone(); });
        if (relays_.empty()) add_relay();
        const auto index = static_cast<std::size_t>(world_.random.below(relays_.size()));
        if (world_.happens(world_.faults.crash)) {
            ++world_.report.crashes;
            world_.note("crash", relays_[index]->number());
            world_.faulty_relays[relays_[index]->number()] = true;
            crashed_.insert(relays_[index]->number());
            relays_.erase(relays_.begin() + static_cast<std::ptrdiff_t>(index));
            add_relay();
        } else if (world_.happens(world_.faults.pause)) {
            relays_[index]->pause(world_.up_to(options_.lease * 3));
        } else if (world_.happens(world_.faults.join) && relays_.size() < kMostRelays) {
            add_relay();
        } else if (world_.happens(world_.faults.drain) && relays_.size() > 1) {
            relays_[index]->drain();
            relays_[index]->pump();
        }
        if (world_.happens(world_.faults.dead_returned)) return_a_dead_one();
        world_.after(kTick, [this] { tick(); });
    }

    void return_a_dead_one() {
        std::vector<std::int64_t> dead;
        for (const auto& [id, row] : world_.table->rows()) {
            if (row.dead) dead.push_back(id);
        }
        if (dead.empty()) return;
        const std::int64_t id = dead[static_cast<std::size_t>(world_.random.below(dead.size()))];
        world_.note("return", static_cast<std::uint64_t>(id));
        world_.table->return_dead(id);
        world_.returned.insert(id);
        world_.returned_untried.insert(id);
        ++world_.report.returned;
    }

    /// Everything is written and published or dead, or waits behind a dead event that blocks.
    [[nodiscard]] bool at_rest() {
        if (writing_ > 0 || world_.elapsed < kFaultyPhase) return false;
        for (const auto& [id, row] : world_.table->rows()) {
            if (row.open() && !(options_.block_behind_dead && behind_dead(id, row))) return false;
        }
        rest_at_ = world_.elapsed;
        return true;
    }

    [[nodiscard]] bool behind_dead(std::int64_t id, const relay::FakeEvents::Row& row) const {
        return std::any_of(world_.table->rows().begin(), world_.table->rows().lower_bound(id), [&](const auto& other) {
            return other.second.dead && other.second.aggregate == row.aggregate;
        });
    }

    // --- what must hold ------------------------------------------------------------------------------------------

    void check();
    void check_order();
    void check_repetitions();
    void check_shares();
    void check_held_up();

    RelayWorld world_;
    relay::RelayOptions options_;
    std::vector<std::unique_ptr<SimulatedRelay>> relays_;
    std::set<std::uint64_t> crashed_;
    std::map<std::string, std::int64_t> highest_committed_;  // by aggregate
    std::uint64_t relays_made_ = 0;
    std::uint64_t writing_ = 0;
    std::uint64_t steps_ = 0;
    bool crowded_ = false;  // relays may hold few events, and many transactions stay open for a while
    bool at_rest_ = false;
    Duration rest_at_{};
};

void Run::check() {
    for (const auto& [id, row] : world_.table->rows()) {
        const std::string name = "event " + std::to_string(id) + ": ";
        if (row.published && world_.arrived[id] == 0) world_.violation(name + "lost: published, but never arrived");
        if (row.dead) ++world_.report.dead;
        if (row.dead && !world_.attempts.contains(id)) world_.violation(name + "dead, but never tried");
        world_.report.retried += static_cast<std::uint64_t>(row.failures);
    }
    for (const auto& [id, times] : world_.arrived) {
        if (!world_.table->rows().contains(id)) world_.violation("a rolled-back event arrived");
    }
    for (const relay::FakeEvents::Applied& applied : world_.table->applied) {
        if (applied.fenced_off)
            world_.violation("event " + std::to_string(applied.id) + " was settled by a relay without its shard");
    }
    world_.report.fenced = world_.table->fenced;
    check_order();
    check_repetitions();
    check_shares();
}

/// Order by id: writers that wait for each other commit in that order, and strict_order keeps it in any case.
void Run::check_order() {
    for (const auto& [aggregate, arrivals] : world_.first_arrivals) {
        std::int64_t highest = 0;
        std::int64_t dead_and_gone = 0;  // the first that is dead and never arrived
        for (const auto& [id, row] : world_.table->rows()) {
            if (row.aggregate != aggregate || !row.dead || world_.arrived.contains(id)) continue;
            dead_and_gone = id;
            break;
        }
        for (const std::int64_t id : arrivals) {
            if (options_.block_behind_dead && dead_and_gone > 0 && id > dead_and_gone) {
                world_.violation("event " + std::to_string(id) + " arrived behind a dead one that blocks");
            }
            if (world_.table->rows().at(id).dead) continue;  // its order no longer matters
            if (world_.returned.contains(id)) continue;      // checked as it is sent
            if (id < highest) {
                world_.violation("event " + std::to_string(id) + " of " + aggregate + " arrived after " +
                                 std::to_string(highest));
            }
            highest = std::max(highest, id);
        }
    }
}

/// A send that arrives is followed by another one only if no relay could know that it arrived.
void Run::check_repetitions() {
    for (const auto& [id, attempts] : world_.attempts) {
        for (std::size_t i = 0; i + 1 < attempts.size(); ++i) {
            const Attempt& earlier = attempts[i];
            if (!earlier.arrives || earlier.ambiguous) continue;
            const Attempt& next = attempts[i + 1];
            const bool same_tenure = earlier.relay == next.relay && earlier.token == next.token;
            if (same_tenure || !world_.faulty_relays[earlier.relay]) {
                world_.violation("event " + std::to_string(id) + " was sent again by " +
                                 (same_tenure ? "the same relay" : "another relay") + " without a reason");
            }
        }
    }
}

/// Of the deliverable events, only the newest may be open. Of the undeliverable ones, some failures were counted if
/// other events were committed later: for each aggregate if the others have the same topic and relay and memory is not
/// short.
void Run::check_held_up() {
    const bool part = world_.faults.part_gone;
    const bool each = part && !world_.faults.one_topic && relays_.size() == 1;
    Duration last_other{};
    for (const auto& [id, row] : world_.table->rows()) {
        if (world_.is_gone(row.aggregate) || (part && !row.aggregate.starts_with(RelayWorld::kGoneTopic))) continue;
        last_other = std::max(last_other, row.committed);
    }
    std::map<std::string, bool> counted;
    for (const auto& [id, row] : world_.table->rows()) {
        if (!world_.is_gone(row.aggregate)) {
            if (row.open() && row.committed + kHeldUp < world_.elapsed)
                world_.violation("event " + std::to_string(id) + " is held up by others that cannot be delivered");
        } else if (row.committed + kCountedWithin < last_other) {
            bool& any = counted[each ? row.aggregate : "its topic"];
            any = any || row.failures > 0;
        }
    }
    for (const auto& [aggregate, is_counted] : counted) {
        if (!is_counted) world_.violation("no failure was counted for " + aggregate + ", which cannot be delivered");
    }
}

void Run::check_shares() {
    std::map<std::string, std::size_t> held;
    for (const auto& relay : relays_) {
        if (!relay->gone()) held[relay->owner()];
    }
    for (const auto& [number, shard] : world_.table->shards()) ++held[shard.owner];
    std::size_t least = SIZE_MAX;
    std::size_t most = 0;
    for (const auto& [owner, shards] : held) {
        least = std::min(least, shards);
        most = std::max(most, shards);
    }
    if (most > least + 1) world_.violation("the relays do not share the shards evenly at the end");
}

}  // namespace

RelayFaults RelayFaults::from_seed(std::uint64_t seed) {
    SeededRandom random(seed ^ 0x8E1A7);
    const auto chance = [&random](double highest) {
        return random.below(3) == 0 ? 0.0 : highest * random.unit() * random.unit();
    };
    RelayFaults faults;
    faults.crash = chance(0.05);
    faults.pause = chance(0.05);
    faults.join = chance(0.05);
    faults.drain = chance(0.05);
    faults.call_fails = chance(0.3);
    faults.answer_lost = chance(0.3);
    faults.slow_call = chance(0.1);
    faults.send_fails = chance(0.5);
    faults.send_refused = chance(0.2);
    faults.send_ambiguous = chance(0.3);
    faults.send_not_tried = chance(0.05);
    faults.slow_send = chance(0.2);
    faults.topic_away = chance(0.1);
    faults.dead_returned = chance(0.5);
    return faults;
}

RelayFaults RelayFaults::of_full_hands() {
    RelayFaults faults;
    faults.full_hands = true;
    faults.send_fails = 0.3;
    return faults;
}

RelayFaults RelayFaults::of_a_topic() {
    RelayFaults faults;
    faults.topic_gone = true;
    return faults;
}

RelayFaults RelayFaults::of_a_part(bool one_topic) {
    RelayFaults faults;
    faults.part_gone = true;
    faults.one_topic = one_topic;
    return faults;
}

RelayFaults RelayFaults::of_sends() {
    RelayFaults faults;
    faults.join = 0.01;
    faults.drain = 0.01;
    faults.send_fails = 0.2;
    faults.send_refused = 0.03;
    faults.send_not_tried = 0.01;
    faults.slow_send = 0.05;
    return faults;
}

RelayReport simulate_relays(std::uint64_t seed, const RelayFaults& faults, const RelaySabotage& sabotage) {
    return Run(seed, faults, sabotage).run();
}

}  // namespace deliverd::simulation
