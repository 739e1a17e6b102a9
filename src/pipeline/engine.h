// The life of a delivery engine, whichever way it owns its work:
//
//     take ─▶ send ─▶ (sink) ─▶ settle          keep: the leases
//
// Four threads, so that database round trips and sends overlap. Each calls its step again and again and naps in
// between. What a step does differs per engine: row leases (lane/lane.h), the ordered relay (relay/relay.h). When each
// thread ends, in which order, and how long that may take is the same for all, and is here.
//
// A step does what can be done now and returns; it never waits for another step. So the threads are a dozen lines, and
// a simulator can interleave the steps of several workers without any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "pipeline/control.h"
#include "pipeline/reporter.h"
#include "sink/sink.h"

namespace deliverd::pipeline {

/// A hurried stop has this long to record what has ended and to give back what was not sent.
inline constexpr Duration kHurriedGrace = std::chrono::seconds(1);

class Engine {
public:
    virtual ~Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Starts the threads. Returns at once.
    void start();

    /// Takes and sends nothing more from here on; returns at once. stop() does the rest.
    virtual void drain() { control_.draining = true; }

    /// Takes and sends nothing more, waits up to `patience` for what is at the sink, settles it, gives back what was
    /// not sent, and joins the threads. Counts what was not finished as abandoned. Idempotent.
    void stop(Duration patience);

    /// A stop() under way, or a later one, no longer waits for the sink: it ends within kHurriedGrace plus what the
    /// store's own limits let its last calls take. Safe from any thread.
    void hurry();

    /// Processes one batch while the caller waits, for as long as the limits of the sink and the store allow; after
    /// drain() for `patience` only. A receiver that asks for a pause ends it. Not after start().
    LaneTotals run_once(Duration patience);

    [[nodiscard]] virtual LaneTotals totals() const = 0;

protected:
    /// Both outlive the engine. The destructor of the derived class calls stop(), because the steps are the derived
    /// class's.
    Engine(sink::Sink& sink, const Clock& clock) : sink_(sink), clock_(clock), control_(clock) {}

    /// One turn of each thread. Answers when it wants to be called again if nothing pokes it; an instant that is over
    /// means at once.
    virtual Instant take() = 0;
    virtual Instant send() = 0;
    virtual Instant settle() = 0;
    virtual Instant keep() = 0;

    /// Before the thread that takes begins, and after it has ended.
    virtual void begin_taking() {}
    virtual void end_taking() {}

    /// Messages whose outcome is still to come.
    [[nodiscard]] virtual std::size_t at_sink() const = 0;
    /// The sink is about to be stopped.
    virtual void cut_off() { control_.cut_off = true; }
    /// After the sink has stopped: no outcome is left to be read, no settlement to be recorded.
    [[nodiscard]] virtual bool all_outcomes_read() const = 0;
    [[nodiscard]] virtual bool all_settled() const = 0;
    /// All threads have ended: counts what is unfinished as abandoned, and gives back what was not sent.
    virtual void leave() = 0;

    /// For run_once(): what comes before the threads begin; the one batch; whether it is still under way.
    virtual void prepare_once() = 0;
    virtual void take_once() = 0;
    [[nodiscard]] virtual bool at_work() const = 0;

    [[nodiscard]] bool hurried() const { return hurried_.load(); }

    static constexpr Duration kStopCheck = std::chrono::milliseconds(50);

    sink::Sink& sink_;
    const Clock& clock_;
    Control control_;

private:
    struct Worker {
        Signal& signal;
        std::thread thread{};
        std::atomic<bool> exit{false};
    };

    void run(Worker& worker, Instant (Engine::*step)(), const std::function<bool()>& done);
    static void finish(Worker& worker);
    void start_sending();
    Instant send_turn();
    void wait_for_sink(Instant deadline);
    [[nodiscard]] bool out_of_time() const { return clock_.now() >= Instant(last_instant_.load()); }
    void bring_end_forward(Instant end);

    Worker take_{control_.signals.take};
    Worker send_{control_.signals.send};
    Worker settle_{control_.signals.settle};
    Worker keep_{control_.signals.keep};
    std::atomic<bool> sends_ended_{false};  // after drain(): the sender has seen it, and hands nothing more to the sink
    std::atomic<bool> hurried_{false};
    std::atomic<Duration> last_instant_{Duration::max()};  // of a stop, since an Instant's epoch
    Mutex stop_mutex_;
    bool stopped_ GUARDED_BY(stop_mutex_) = false;
};

}  // namespace deliverd::pipeline
