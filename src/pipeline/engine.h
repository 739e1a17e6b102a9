// The life of a delivery engine, whichever way it owns its work:
//
//     take ─▶ send ─▶ (sink) ─▶ settle          keep: the leases
//
// Four threads, each of which calls one step() after the other and naps in between. What a step does is the engine's
// own: row leases (lane/lane.h), the ordered relay (relay/relay.h). When each thread ends, in which order, and how long
// that may take is the same for all and stands here.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "pipeline/runner.h"
#include "pipeline/signal.h"
#include "sink/sink.h"

namespace deliverd::pipeline {

class Engine : public Runner {
public:
    ~Engine() override = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    void start() final;
    void stop(Duration patience) final;
    void hurry() final;
    LaneTotals run_once(Duration patience) final;

protected:
    /// Both outlive the engine. The destructor of the class that derives from it calls stop(): the steps are its own.
    Engine(sink::Sink& sink, const Clock& clock) : sink_(sink), clock_(clock) {}

    /// One turn of each thread: does what can be done now. Answers when it wants to be called again if nobody pokes it:
    /// an instant that is over, at once.
    virtual Instant take() = 0;
    virtual Instant send() = 0;
    virtual Instant settle() = 0;
    virtual Instant keep() = 0;

    /// Before the thread that takes begins, and after it has ended.
    virtual void begin_taking() {}
    virtual void end_taking() {}

    /// After drain(): the sender has seen it, and hands nothing more to the sink.
    [[nodiscard]] virtual bool sends_ended() const = 0;
    /// Messages whose outcome is still to come.
    [[nodiscard]] virtual std::size_t at_sink() const = 0;
    /// The sink is being stopped: an ambiguous outcome from here on is our own doing.
    virtual void cut_off() = 0;
    /// After the sink has stopped: nothing is left to be read, or to be recorded.
    [[nodiscard]] virtual bool all_outcomes_read() const = 0;
    [[nodiscard]] virtual bool all_settled() const = 0;
    /// The sender, then the settler has ended with something left: it is counted as abandoned.
    virtual void abandon_sends() {}
    virtual void abandon_settles() = 0;
    /// All threads have ended: what this engine holds and did not send is given back.
    virtual void give_back() = 0;

    /// For run_once(): before the threads begin, the one batch, and whether it is still under way.
    virtual void prepare_once() = 0;
    virtual void take_once() = 0;
    [[nodiscard]] virtual bool at_work() const = 0;

    [[nodiscard]] bool hurried() const { return hurried_.load(); }

    static constexpr Duration kStopCheck = std::chrono::milliseconds(50);

    sink::Sink& sink_;
    const Clock& clock_;
    Signals signals_;

private:
    struct Worker {
        Signal& signal;
        std::thread thread{};
        std::atomic<bool> exit{false};
    };

    void run(Worker& worker, Instant (Engine::*step)(), const std::function<bool()>& done);
    static void finish(Worker& worker);
    void start_sending();
    void wait_for_sink(Instant deadline);
    [[nodiscard]] bool out_of_time() const { return clock_.now() >= Instant(last_instant_.load()); }
    void bring_end_forward(Instant end);

    Worker take_{signals_.take};
    Worker send_{signals_.send};
    Worker settle_{signals_.settle};
    Worker keep_{signals_.keep};
    std::atomic<bool> hurried_{false};
    std::atomic<Duration> last_instant_{Duration::max()};  // of a stop, since an Instant's epoch
    std::mutex stop_mutex_;
    bool stopped_ = false;
};

}  // namespace deliverd::pipeline
