#include "relay_world.h"

#include <algorithm>
#include <memory>

namespace deliverd::simulation {

namespace {

constexpr Duration kUsualCall = std::chrono::milliseconds(3);
constexpr Duration kLatestEffect = std::chrono::milliseconds(200);  // after the caller has got an error
constexpr Duration kShortestNap = std::chrono::microseconds(100);

}  // namespace

void RelayWorld::arrive(std::int64_t id, const std::string& aggregate) {
    note("arrived", static_cast<std::uint64_t>(id));
    if (arrived[id]++ == 0) {
        first_arrivals[aggregate].push_back(id);
    } else {
        ++report.repeated;
    }
}

SimulatedRelay::SimulatedRelay(RelayWorld& world, std::uint64_t number, const relay::RelayOptions& options)
    : world_(world),
      number_(number),
      options_(options),
      core_(std::make_unique<relay::RelayCore>(options_, world.random.next(), observer_, log_)) {}

/// Runs something of this relay: not after its death, and not while it is paused.
template <typename Event>
void SimulatedRelay::later(Duration wait, Event event) {
    world_.after(wait, [this, alive = alive_, event = std::move(event)]() mutable {
        if (!*alive) return;
        if (world_.elapsed < paused_until_) return later(paused_until_ - world_.elapsed, std::move(event));
        event();
        pump();
    });
}

/// A call takes effect at some moment between its begin and its answer, or never. If the answer is lost, it may take
/// effect even later.
template <typename Answer>
void SimulatedRelay::call(std::string_view name, std::function<Result<Answer>()> effect,
                          std::function<void(Result<Answer>)> then) {
    world_.note(name, number_);
    const bool slow = world_.happens(world_.faults.slow_call);
    const Duration takes = world_.up_to(slow ? world_.lease * 2 : kUsualCall);
    const bool fails = world_.happens(world_.faults.call_fails);
    const bool lost = !fails && world_.happens(world_.faults.answer_lost);
    if (slow || fails || lost) world_.faulty_relays[number_] = true;
    if (fails) {
        return later(takes, [then] { then(retryable("db_timeout", "simulated: the call had no effect")); });
    }
    auto answer = std::make_shared<Result<Answer>>(ambiguous("db_error", "simulated: the answer was lost"));
    const bool late = lost && world_.random.below(3) == 0;
    const Duration at = late ? takes + world_.up_to(kLatestEffect) : world_.up_to(takes);
    world_.after(at, [effect, answer, lost] {  // the server does it even if the relay has died
        Result<Answer> done = effect();
        if (!lost) *answer = std::move(done);
    });
    later(takes, [then, answer] { then(std::move(*answer)); });
}

void SimulatedRelay::pump() {
    if (gone_ || world_.elapsed < paused_until_) return;
    tend();
    poll();
    send();
    settle();
    leave_when_done();
    check();
    wake_later();
}

void SimulatedRelay::pause(Duration span) {
    world_.faulty_relays[number_] = true;
    ++world_.report.pauses;
    paused_until_ = world_.elapsed + span;
    later(span, [] {});
}

void SimulatedRelay::tend() {
    if (tending_) return;
    const std::vector<store::ShardLease> leases = core_->begin_release();
    if (!leases.empty()) {
        tending_ = true;
        call<void>(
            "release",
            [&world = world_, owner = options_.worker_id, leases] {
                world.report.released += leases.size();
                return world.table->release(owner, leases);
            },
            [this, leases](const Result<void>& answer) {
                tending_ = false;
                core_->end_release(world_.now(), leases, answer);
            });
        return;
    }
    const Instant began = world_.now();
    if (began < core_->next_tend()) return;
    tending_ = true;
    call<store::ShardShare>(
        "tend",
        [&world = world_, owner = options_.worker_id, lease = options_.lease] {
            return world.table->tend(owner, lease);
        },
        [this, began](const Result<store::ShardShare>& answer) {
            tending_ = false;
            core_->tended(began, world_.now(), answer);
        });
}

void SimulatedRelay::poll() {
    const Instant began = world_.now();
    std::optional<store::EventRead> request = core_->begin_poll(began);
    if (!request) return;
    call<store::EventBatch>(
        "read", [&world = world_, request = std::move(*request)] { return world.table->read(request); },
        [this, began, asked = core_->shards().active()](Result<store::EventBatch> answer) {
            if (answer) {
                ++world_.report.polls;
                world_.report.rows_read += answer->rows.size();
                remember_returned(asked, *answer);
            }
            core_->end_poll(began, world_.now(), std::move(answer));
        });
}

/// If more are due than one poll may take, one of them may come too late.
void SimulatedRelay::remember_returned(std::span<const store::ShardLease> asked, const store::EventBatch& batch) {
    const auto due = [](const store::EventRow& row) { return row.origin == store::EventOrigin::due; };
    if (std::ranges::count_if(batch.rows, due) > options_.batch_size) return;
    for (const store::EventRow& row : batch.rows) {
        if (!due(row) || !world_.returned_untried.contains(row.message.id)) continue;
        const auto lease = std::ranges::find(asked, row.shard, &store::ShardLease::shard);
        if (lease != asked.end()) returned_.insert_or_assign(row.message.id, *lease);
    }
}

/// Once a relay has seen a dead event that was put back, no later event of its aggregate may be sent before it.
void SimulatedRelay::check_returned(const Message& message) {
    returned_.erase(message.id);
    world_.returned_untried.erase(message.id);
    for (const auto& [id, lease] : returned_) {
        const relay::FakeEvents::Row& row = world_.table->rows().at(id);
        if (row.aggregate != message.key || id > message.id || !row.open()) continue;
        if (!world_.returned_untried.contains(id)) continue;
        if (core_->shards().active_token(row.shard) != lease.token) continue;
        world_.violation("event " + std::to_string(message.id) + " was sent before " + std::to_string(id) +
                         ", which was returned");
    }
}

void SimulatedRelay::send() {
    std::vector<const Message*> batch;
    core_->send(world_.now(), batch);
    for (const Message* message : batch) start(*message);
}

void SimulatedRelay::start(const Message& message) {
    ++world_.report.sends;
    world_.note("send", static_cast<std::uint64_t>(message.id));
    check_returned(message);
    if (world_.happens(world_.faults.send_not_tried)) not_tried_until_ = world_.elapsed + world_.up_to(options_.lease);
    Attempt attempt;
    attempt.id = message.id;
    attempt.relay = number_;
    const std::int32_t shard = world_.table->rows().at(message.id).shard;
    attempt.token = core_->shards().active_token(shard).value_or(0);
    Outcome outcome{.kind = OutcomeKind::delivered};
    Duration& away_until = world_.away_until[message.topic];
    if (world_.happens(world_.faults.topic_away)) away_until = world_.elapsed + world_.up_to(options_.lease * 3);
    if (world_.is_gone(message.key) || world_.elapsed < away_until) {
        ++world_.report.topic_away;
        outcome.kind = OutcomeKind::retryable;
        outcome.not_attempted = true;
    } else if (world_.elapsed < not_tried_until_) {
        ++world_.report.put_off;
        if (world_.random.below(2) == 0) outcome.code = sink::kBrokerUnreachable;
        outcome.kind = OutcomeKind::retryable;
        outcome.not_attempted = true;
        if (world_.random.below(2) == 0) outcome.retry_after = world_.up_to(options_.lease);
    } else if (world_.happens(world_.faults.send_fails)) {
        outcome.kind = OutcomeKind::retryable;
    } else if (world_.happens(world_.faults.send_refused)) {
        outcome.kind = OutcomeKind::permanent;
    } else if (world_.happens(world_.faults.send_ambiguous)) {
        outcome.kind = OutcomeKind::ambiguous;
        attempt.ambiguous = true;
        attempt.arrives = world_.random.below(2) == 0;
    } else {
        attempt.arrives = true;
    }
    world_.attempts[message.id].push_back(attempt);
    const bool slow = world_.happens(world_.faults.slow_send);
    const Duration takes = world_.up_to(slow ? options_.lease * 3 : world_.usual_send);
    if (attempt.arrives) {
        const Duration at = attempt.ambiguous ? world_.up_to(takes * 2) : world_.up_to(takes);
        world_.after(at, [&world = world_, id = message.id, key = message.key] { world.arrive(id, key); });
    }
    later(takes, [this, &message, outcome] {
        relay::Answer answer{&message, outcome, world_.now()};
        core_->outcomes(world_.now(), {&answer, 1});
    });
}

void SimulatedRelay::settle() {
    const auto settlements = core_->begin_settle(world_.now());
    if (settlements.empty()) return;
    std::vector<store::EventSettlement> copy(settlements.begin(), settlements.end());
    call<std::vector<store::EventSettled>>(
        "settle",
        [&world = world_, owner = options_.worker_id, copy = std::move(copy)] {
            return world.table->settle(owner, copy);
        },
        [this](const Result<std::vector<store::EventSettled>>& answer) { core_->end_settle(world_.now(), answer); });
}

void SimulatedRelay::leave_when_done() {
    if (!core_->draining() || core_->at_sink() > 0 || !core_->settled_all() || tending_) return;
    core_->abandon();
    gone_ = true;
    (void)world_.table->leave(options_.worker_id);
}

void SimulatedRelay::wake_later() {
    if (gone_) return;
    const Instant now = world_.now();
    Instant next = std::min({core_->next_poll(now), core_->next_send(now), core_->next_settle(now)});
    if (!tending_) next = std::min(next, core_->next_tend());
    const Duration at = world_.elapsed + std::max(next - now, kShortestNap);
    if (wakes_at_ > world_.elapsed && wakes_at_ <= at) return;
    wakes_at_ = at;
    later(at - world_.elapsed, [] {});
}

void SimulatedRelay::check() {
    if (core_->book().rows() > core_->most_rows()) world_.violation("the relay holds more rows than it may");
}

}  // namespace deliverd::simulation
