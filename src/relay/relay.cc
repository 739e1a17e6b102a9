#include "relay/relay.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "lane/shared.h"
#include "relay/inbox.h"
#include "relay/relay_core.h"

namespace deliverd::relay {

namespace {

using lane::Signal;

constexpr Duration kLastSettleGrace = std::chrono::seconds(2);  // for what came in as patience ended
constexpr Duration kStopCheck = std::chrono::milliseconds(50);
constexpr Duration kOncePatience = std::chrono::seconds(5);  // of run_once with strict_order

}  // namespace

/// Four threads around one core and one lock, which nobody holds while calling a port.
struct Relay::Impl {
    Impl(RelayOptions relay_options, store::EventOutbox& relay_outbox, sink::Sink& relay_sink, const Clock& relay_clock,
         Random& random, lane::Observer& relay_observer, Log& relay_log)
        : options(std::move(relay_options)),
          outbox(relay_outbox),
          sink(relay_sink),
          clock(relay_clock),
          observer(relay_observer),
          log(relay_log),
          core(options, random.next(), observer, log),
          inbox(clock, send_signal) {}

    template <typename Call>
    auto timed(std::string_view operation, Call&& call) {
        const Instant began = clock.now();
        auto answer = call();
        observer.on_database_call(operation, clock.now() - began, answer.has_value());
        return answer;
    }

    /// Calls `step`, which answers when it wants to be called again, until `done` says so.
    void loop(Signal& signal, const std::function<Instant()>& step, const std::function<bool()>& done) {
        while (!done()) {
            const Instant wake_at = step();
            if (wake_at <= clock.now()) continue;
            signal.wait_until(out_of_time() ? wake_at : std::min(wake_at, Instant(last_instant.load())));
        }
    }

    Instant keep();
    void give_back();
    Instant look();
    bool read_once();
    void look_once();
    void sleep_or_wake(bool quiet);
    Instant send();
    Instant settle();

    void start_sending();
    void start_reading();
    void stop(Duration patience);
    void hurry();
    void wait_for_sink(Instant deadline);
    void bring_end_forward(Instant end);
    void leave();

    [[nodiscard]] bool out_of_time() const { return clock.now() >= Instant(last_instant.load()); }
    [[nodiscard]] bool settled_all() {
        const std::lock_guard lock(mutex);
        return core.settled_all();
    }
    static void finish(std::thread& thread, std::atomic<bool>& exit, Signal& signal) {
        exit = true;
        signal.poke();
        if (thread.joinable()) thread.join();
    }

    const RelayOptions options;
    store::EventOutbox& outbox;
    sink::Sink& sink;
    const Clock& clock;
    lane::Observer& observer;
    Log& log;

    std::mutex mutex;  // guards core
    RelayCore core;
    Signal keep_signal;
    Signal read_signal;
    Signal send_signal;
    Signal settle_signal;
    Signal stop_signal;
    Inbox inbox;

    std::unique_ptr<store::EventListener> listener;
    bool asleep = false;          // the reader's
    std::vector<Answer> answers;  // the sender's
    std::vector<const Message*> batch;

    std::thread keep_thread;
    std::thread read_thread;
    std::thread send_thread;
    std::thread settle_thread;
    std::atomic<bool> keep_exit{false};
    std::atomic<bool> read_exit{false};
    std::atomic<bool> send_exit{false};
    std::atomic<bool> settle_exit{false};
    std::atomic<bool> sends_ended{false};  // the sender has seen that it is to send nothing more
    std::atomic<bool> hurried{false};
    std::atomic<Duration> last_instant{Duration::max()};
    std::atomic<bool> tended{false};
    std::mutex stop_mutex;
    bool stopped = false;
};

// --- shards --------------------------------------------------------------------------------------------------------

Instant Relay::Impl::keep() {
    give_back();
    const Instant began = clock.now();
    {
        const std::lock_guard lock(mutex);
        if (began < core.next_tend()) return std::min(core.next_tend(), began + lane::kLongestNap);
    }
    tended = true;
    const auto answer = timed("tend", [&] { return outbox.tend(options.owner, options.lease); });
    {
        const std::lock_guard lock(mutex);
        core.tended(began, clock.now(), answer);
    }
    read_signal.poke();
    send_signal.poke();
    return clock.now();
}

void Relay::Impl::give_back() {
    std::vector<store::ShardLease> leases;
    {
        const std::lock_guard lock(mutex);
        leases = core.begin_release();
    }
    if (leases.empty()) return;
    const auto answer = timed("release", [&] { return outbox.release(options.owner, leases); });
    const std::lock_guard lock(mutex);
    core.end_release(clock.now(), leases, answer);
}

// --- reading -------------------------------------------------------------------------------------------------------

Instant Relay::Impl::look() {
    if (read_once()) return clock.now();
    const std::lock_guard lock(mutex);
    return core.next_look(clock.now());
}

/// False when it was not time for a look.
bool Relay::Impl::read_once() {
    const Instant began = clock.now();
    std::optional<store::EventRead> request;
    {
        const std::lock_guard lock(mutex);
        request = core.begin_look(began);
    }
    if (!request) return false;
    Result<store::EventBatch> found = timed("read", [&] { return outbox.read(*request); });
    if (found && !found->rows.empty()) failpoint("lane.after_claim");
    bool can_send = false;
    bool quiet = false;
    {
        const std::lock_guard lock(mutex);
        core.end_look(began, clock.now(), std::move(found));
        can_send = core.can_send();
        quiet = core.quiet();
    }
    if (can_send) send_signal.poke();
    sleep_or_wake(quiet);
    return true;
}

/// The one look that run_once makes, and those that must come before it.
void Relay::Impl::look_once() {
    const Instant deadline = clock.now() + kOncePatience;
    while (!hurried && clock.now() < deadline) {
        read_once();
        Instant next;
        {
            const std::lock_guard lock(mutex);
            if (!core.look_left()) return;
            next = core.next_look(clock.now());
        }
        read_signal.wait_until(std::min({next, deadline, clock.now() + kStopCheck}));
    }
}

/// Between the last look and the moment a writer sees that this relay sleeps, something may be committed or written: so
/// one more look follows, and others while those writers are open.
void Relay::Impl::sleep_or_wake(bool quiet) {
    if (listener == nullptr || quiet == asleep) return;
    const Result<void> answer = timed("set_asleep", [&] { return outbox.set_asleep(options.owner, quiet); });
    const std::lock_guard lock(mutex);
    if (!answer) return core.database_failed(clock.now(), "set_asleep", answer.error(), 0);
    asleep = quiet;
    if (asleep) core.fell_asleep(clock.now());
}

// --- sending -------------------------------------------------------------------------------------------------------

Instant Relay::Impl::send() {
    inbox.take(answers);
    if (!answers.empty()) failpoint("lane.after_send");
    bool can_look = false;
    bool settle_due = false;
    bool leaving = false;
    bool draining = false;
    Instant wake_at;
    {
        const std::lock_guard lock(mutex);
        const Instant now = clock.now();
        draining = core.draining();
        const bool none_waited = core.settled_all();
        if (!answers.empty()) core.outcomes(now, answers);
        core.send(now, batch);
        can_look = core.can_look(now);
        settle_due = core.settle_due(now) || (none_waited && !core.settled_all());
        leaving = core.shards().any_leaving();
        wake_at = core.next_send(now);
    }
    if (!batch.empty()) {
        failpoint("lane.before_send");
        sink.send(batch, inbox);
    }
    if (settle_due) settle_signal.poke();
    if (can_look) read_signal.poke();
    if (leaving) keep_signal.poke();
    if (draining) {
        sends_ended = true;
        stop_signal.poke();
    }
    return wake_at;
}

// --- settling ------------------------------------------------------------------------------------------------------

Instant Relay::Impl::settle() {
    std::span<const store::EventSettlement> settlements;
    {
        const std::lock_guard lock(mutex);
        const Instant now = clock.now();
        settlements = core.begin_settle(now);
        if (settlements.empty()) return core.next_settle(now);
    }
    failpoint("lane.before_settle");
    const auto answer = timed("settle", [&] { return outbox.settle(options.owner, settlements); });
    bool can_look = false;
    bool leaving = false;
    {
        const std::lock_guard lock(mutex);
        core.end_settle(clock.now(), answer);
        can_look = core.can_look(clock.now());
        leaving = core.shards().any_leaving();
    }
    if (can_look) read_signal.poke();
    if (leaving) keep_signal.poke();
    stop_signal.poke();
    return clock.now();
}

// --- beginning and end ---------------------------------------------------------------------------------------------

void Relay::Impl::start_sending() {
    send_thread = std::thread([this] {
        loop(send_signal, [this] { return send(); }, [this] { return send_exit && (inbox.empty() || out_of_time()); });
    });
    settle_thread = std::thread([this] {
        loop(
            settle_signal, [this] { return settle(); },
            [this] { return settle_exit && (out_of_time() || settled_all()); });
    });
    keep_thread =
        std::thread([this] { loop(keep_signal, [this] { return keep(); }, [this] { return keep_exit.load(); }); });
}

void Relay::Impl::start_reading() {
    if (options.listen) {
        listener = outbox.listen([this] {
            {
                const std::lock_guard lock(mutex);
                core.wake(clock.now());
            }
            read_signal.poke();
        });
    }
    read_thread =
        std::thread([this] { loop(read_signal, [this] { return look(); }, [this] { return read_exit.load(); }); });
}

void Relay::Impl::bring_end_forward(Instant end) {
    Duration known = last_instant.load();
    while (end.time_since_epoch() < known && !last_instant.compare_exchange_weak(known, end.time_since_epoch())) {
    }
}

void Relay::Impl::hurry() {
    hurried = true;
    bring_end_forward(clock.now() + lane::kHurriedGrace);
    for (Signal* signal : {&stop_signal, &send_signal, &settle_signal}) signal->poke();
}

/// First until the sender has seen that it is to send nothing more, then until everything at the sink has ended, or
/// there is no more time.
void Relay::Impl::wait_for_sink(Instant deadline) {
    while (send_thread.joinable() && !sends_ended.load()) {
        send_signal.poke();
        stop_signal.wait_until(clock.now() + kStopCheck);
    }
    const auto at_sink = [this] {
        const std::lock_guard lock(mutex);
        return core.at_sink();
    };
    while (at_sink() > 0 && !hurried && clock.now() < deadline) {
        stop_signal.wait_until(std::min(deadline, clock.now() + kStopCheck));
    }
    {
        const std::lock_guard lock(mutex);
        core.cut_off();
    }
    sink.stop(Duration::zero());
}

void Relay::Impl::leave() {
    if (!tended) return;
    const Result<void> answer = timed("leave", [&] { return outbox.leave(options.owner); });
    const std::lock_guard lock(mutex);
    if (!answer) core.database_failed(clock.now(), "leave", answer.error(), 0);
}

void Relay::Impl::stop(Duration patience) {
    const std::lock_guard stopping(stop_mutex);
    if (stopped) return;
    stopped = true;
    const Instant deadline = clock.now() + patience;
    {
        const std::lock_guard lock(mutex);
        core.drain();
    }
    finish(read_thread, read_exit, read_signal);
    listener.reset();
    wait_for_sink(deadline);
    const Instant now = clock.now();
    last_instant = std::max(deadline, now + kLastSettleGrace).time_since_epoch();
    if (hurried) bring_end_forward(now + lane::kHurriedGrace);
    finish(send_thread, send_exit, send_signal);
    finish(settle_thread, settle_exit, settle_signal);
    {
        const std::lock_guard lock(mutex);
        core.abandon();
    }
    finish(keep_thread, keep_exit, keep_signal);
    leave();
}

Relay::Relay(RelayOptions options, store::EventOutbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
             lane::Observer& observer, Log& log)
    : impl_(std::make_unique<Impl>(std::move(options), outbox, sink, clock, random, observer, log)) {}

Relay::~Relay() {
    impl_->stop(Duration::zero());
}

void Relay::start() {
    impl_->start_sending();
    impl_->start_reading();
}

void Relay::drain() {
    const std::lock_guard lock(impl_->mutex);
    impl_->core.drain();
}

void Relay::stop(Duration patience) {
    impl_->stop(patience);
}

void Relay::hurry() {
    impl_->hurry();
}

lane::LaneTotals Relay::run_once(Duration patience) {
    impl_->core.look_once();
    impl_->keep();
    impl_->start_sending();
    impl_->look_once();
    const auto at_work = [this] {
        const std::lock_guard lock(impl_->mutex);
        const RelayCore& core = impl_->core;
        return core.unfinished() > 0 && !core.draining() && !core.only_waiting(impl_->clock.now());
    };
    while (at_work() && !impl_->hurried) impl_->stop_signal.wait_until(impl_->clock.now() + kStopCheck);
    impl_->stop(patience);
    return totals();
}

lane::LaneTotals Relay::totals() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->core.totals();
}

}  // namespace deliverd::relay
