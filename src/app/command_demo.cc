#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "app/command.h"
#include "app/demo_receiver.h"
#include "app/demo_view.h"
#include "app/service.h"
#include "app/stop_signals.h"

namespace deliverd::app {

namespace {

constexpr Duration kFrameInterval = std::chrono::milliseconds(500);
constexpr Duration kLineInterval = std::chrono::seconds(2);
constexpr Duration kRateWindow = std::chrono::seconds(3);
constexpr Duration kDrainPatience = std::chrono::seconds(10);
constexpr std::size_t kFailuresShown = 5;
constexpr std::uint16_t kUsualPort = 8080;

/// A folder of its own that goes with it.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-demo-XXXXXX").string();
        if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// Keeps the newest failures for the view.
class LastFailures final : public lane::Observer {
public:
    void on_failure(const Message& message, const Outcome& outcome) override {
        const std::lock_guard lock(mutex_);
        lines_.push_front(fmt::format("{} {}: {}", message.message_id, outcome.code, outcome.detail));
        if (lines_.size() > kFailuresShown) lines_.pop_back();
    }
    [[nodiscard]] std::vector<std::string> lines() const {
        const std::lock_guard lock(mutex_);
        return {lines_.begin(), lines_.end()};
    }

private:
    mutable std::mutex mutex_;
    std::deque<std::string> lines_;
};

/// Enqueues memories at a steady rate on a thread of its own until stopped.
class Traffic {
public:
    Traffic(store::Database& database, double rate)
        : database_(database), interval_(from_seconds(1 / rate)), thread_([this] { work(); }) {}
    ~Traffic() { stop(); }
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    void stop() {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
        }
        wake_.notify_all();
        if (thread_.joinable()) thread_.join();
    }
    [[nodiscard]] std::int64_t enqueued() const { return enqueued_; }

private:
    static constexpr int kEqualEvery = 12;

    void work() {
        const auto lease = database_.lease("demo");
        if (!lease) return;
        Instant next = SystemClock().now();
        for (std::int64_t i = 1;; ++i) {
            // Now and then the very same memory again: the lane must not send it a second time.
            const std::string text =
                i % kEqualEvery == 0 ? std::string("the kettle is on") : fmt::format("memory number {}", i);
            if ((*lease)->enqueue_memory("demo", text, i)) ++enqueued_;
            next += interval_;
            std::unique_lock lock(mutex_);
            if (wake_.wait_until(lock, next, [this] { return ending_; })) return;
        }
    }

    store::Database& database_;
    const Duration interval_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool ending_ = false;
    std::atomic<std::int64_t> enqueued_ = 0;
    std::thread thread_;
};

Config demo_config(const std::string& folder, const std::string& receiver_url, std::uint16_t port) {
    const std::string yaml = fmt::format(R"(
server: {{ port: {}, shutdown_seconds: 10 }}
database: {{ url: "sqlite:{}/demo.db" }}
lanes:
  memories:
    outbox: memory
    sink: {{ type: http, url: "{}", timeout_ms: 1000 }}
    batch_size: 50
    parallelism: 8
    lease_seconds: 10
    loop_interval_seconds: 0.1
    retry: {{ max: 5, base_seconds: 0.5, cap_seconds: 5 }}
)",
                                         port, folder, receiver_url);
    return load_config_text(yaml, "demo", {}, [](const std::string&) { return std::nullopt; }).config;
}

Result<std::unique_ptr<Service>> start_service(const DemoArguments& arguments, const std::string& folder,
                                               const std::string& url, Log& log, lane::Observer& failures) {
    auto service = Service::start(demo_config(folder, url, arguments.port.value_or(kUsualPort)), log, &failures);
    const bool port_taken = !service && service.error().code == "bind_failed" && !arguments.port;
    return port_taken ? Service::start(demo_config(folder, url, 0), log, &failures) : std::move(service);
}

/// Looks at everything now and then and draws it.
class Viewer {
public:
    Viewer(const Context& context, Service& service, DemoReceiver& receiver, LastFailures& failures, Traffic& traffic)
        : context_(context),
          service_(service),
          receiver_(receiver),
          failures_(failures),
          traffic_(traffic),
          outbox_(service.database().memory_outbox()),
          terminal_(isatty(STDOUT_FILENO) == 1),
          colour_(terminal_ && !context.environment("NO_COLOR")),
          start_(clock_.now()) {}

    [[nodiscard]] Duration interval() const { return terminal_ ? kFrameInterval : kLineInterval; }

    DemoState look() {
        DemoState state;
        state.elapsed_seconds = to_seconds(clock_.now() - start_);
        state.api_address = service_.address();
        state.enqueued = traffic_.enqueued();
        if (const auto counts = outbox_->counts()) state.counts = *counts;
        if (const auto lag = outbox_->lag_seconds()) state.lag_seconds = *lag;
        state.totals = service_.totals();
        state.receiver = receiver_.counts();
        state.last_failures = failures_.lines();
        state.sent_per_second = rate(state.counts.sent);
        return state;
    }

    void draw(DemoState state, bool draining) {
        state.draining = draining;
        if (terminal_) {
            context_.out << redrawn(render_frame(state, colour_));
        } else {
            context_.out << render_line(state);
        }
        context_.out.flush();
    }

    /// False once what was drawn could not be written: nobody is watching any more.
    [[nodiscard]] bool seen() const { return context_.out.good(); }

private:
    /// From the top left, each line's rest cleared as it is written: no flicker, as a cleared screen would have.
    static std::string redrawn(const std::string& frame) {
        std::string out = "\x1b[H";
        for (const char c : frame) {
            if (c == '\n') out += "\x1b[K";
            out += c;
        }
        return out + "\x1b[J";
    }

    double rate(std::int64_t sent) {
        const Instant now = clock_.now();
        samples_.emplace_back(now, sent);
        while (samples_.size() > 2 && now - samples_.front().first > kRateWindow) samples_.pop_front();
        const double span = to_seconds(now - samples_.front().first);
        return span > 0 ? static_cast<double>(sent - samples_.front().second) / span : 0;
    }

    const Context& context_;
    Service& service_;
    DemoReceiver& receiver_;
    LastFailures& failures_;
    Traffic& traffic_;
    std::unique_ptr<store::Outbox> outbox_;
    const bool terminal_;
    const bool colour_;
    SystemClock clock_;
    const Instant start_;
    std::deque<std::pair<Instant, std::int64_t>> samples_;
};

void watch(StopSignals& signals, Viewer& viewer, double seconds) {
    const SystemClock clock;
    const Instant start = clock.now();
    const Instant end = seconds > 0 ? start + from_seconds(seconds) : Instant::max();
    while (true) {
        const Instant now = clock.now();
        if (now >= end) return;
        viewer.draw(viewer.look(), false);
        if (!viewer.seen()) return;
        if (signals.wait_for(std::min(viewer.interval(), end - now))) return;
    }
}

}  // namespace

int run_demo(const Context& context, const DemoArguments& arguments) {
    StopSignals signals;
    const TemporaryFolder folder;
    if (folder.path().empty()) return complain(context, kFailed, "cannot make a temporary folder; is TMPDIR right?");
    NullLog log;  // failures are what the demo shows, not news for a log
    auto receiver = DemoReceiver::start({}, SystemRandom().next());
    if (!receiver) return complain(context, receiver.error());
    LastFailures failures;
    auto service = start_service(arguments, folder.path(), (*receiver)->url(), log, failures);
    if (!service) return complain(context, service.error());

    context.out << fmt::format("metrics at {0}/metrics, health at {0}/readyz\n", (*service)->address());
    Traffic traffic((*service)->database(), arguments.rate);
    Viewer viewer(context, **service, **receiver, failures, traffic);
    watch(signals, viewer, arguments.seconds);

    traffic.stop();
    viewer.draw(viewer.look(), true);
    signals.on_signal(2, [&service] { (*service)->hurry(); });
    (*service)->stop(kDrainPatience);
    signals.clear_actions();
    (*receiver)->stop();
    const DemoState end = viewer.look();
    context.out << render_totals(end);
    context.out.flush();
    const bool adds_up = end.enqueued == end.counts.pending + end.counts.sent + end.counts.dead;
    return adds_up ? kDone : complain(context, kFailed, "the totals do not add up");
}

}  // namespace deliverd::app
