#include "demo/demo.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "daemon/service.h"
#include "daemon/stop_signals.h"
#include "demo/demo_receiver.h"
#include "demo/demo_traffic.h"
#include "demo/demo_view.h"
#include "demo/temporary_folder.h"

namespace deliverd::demo {

namespace {

constexpr Duration kFrameInterval = std::chrono::milliseconds(500);
constexpr Duration kLineInterval = std::chrono::seconds(2);
constexpr Duration kRateWindow = std::chrono::seconds(3);
constexpr Duration kDrainPatience = std::chrono::seconds(10);
constexpr std::size_t kFailuresShown = 5;
constexpr std::uint16_t kUsualPort = 8080;

/// Keeps the newest failures for the view.
class LastFailures final : public pipeline::Observer {
public:
    void on_failure(const Message& message, const Outcome& outcome) override {
        const MutexLock lock(mutex_);
        lines_.push_front(fmt::format("{} {}: {}", message.message_id, outcome.code, outcome.detail));
        if (lines_.size() > kFailuresShown) lines_.pop_back();
    }
    [[nodiscard]] std::vector<std::string> lines() const {
        const MutexLock lock(mutex_);
        return {lines_.begin(), lines_.end()};
    }

private:
    mutable Mutex mutex_;
    std::deque<std::string> lines_ GUARDED_BY(mutex_);
};

config::Config demo_config(const std::string& folder, const std::string& receiver, std::uint16_t port) {
    const std::string yaml = fmt::format(R"(
server: {{ port: {0}, shutdown_seconds: 10 }}
database: {{ url: "sqlite:{1}/demo.db" }}
lanes:
  memories:
    outbox: memory
    sink: {{ type: http, url: "{2}/memories", timeout_ms: 1000 }}
    batch_size: 50
    parallelism: 8
    lease_seconds: 10
    loop_interval_seconds: 0.1
    retry: {{ max: 5, base_seconds: 0.5, cap_seconds: 5 }}
  orders:
    outbox: orders
    sink: {{ type: http, url: "{2}/orders", timeout_ms: 1000 }}
    parallelism: 8
    retry: {{ max: 5, base_seconds: 0.5, cap_seconds: 5 }}
  events:
    outbox: events
    sink: {{ type: http, url: "{2}/events", timeout_ms: 1000 }}
    parallelism: 8
    idle_poll_ms: 100
    retry: {{ max: 8, base_seconds: 0.5, cap_seconds: 5 }}
)",
                                         port, folder, receiver);
    return config::load_config_text(yaml, "demo", {}, [](const std::string&) { return std::nullopt; }).config;
}

/// On the usual port if it is free, so that the examples of the documentation work unchanged.
Result<std::unique_ptr<daemon::Service>> start_service(const DemoArguments& arguments, const std::string& folder,
                                                       const std::string& url, Log& log, pipeline::Observer& failures) {
    const auto start = [&](std::uint16_t port) {
        return daemon::Service::start(demo_config(folder, url, port), log, &failures);
    };
    auto service = start(arguments.port.value_or(kUsualPort));
    const bool port_taken = !service && service.error().code == codes::kBindFailed && !arguments.port;
    return port_taken ? start(0) : std::move(service);
}

/// One lane as its table (a RowQueue or EventOutbox) and its totals show it.
template <typename Table>
class LaneView {
public:
    LaneView(std::string name, std::unique_ptr<Table> outbox) : name_(std::move(name)), outbox_(std::move(outbox)) {}

    DemoLane look(const daemon::Service& service, Instant now, std::int64_t enqueued) {
        DemoLane lane;
        lane.enqueued = enqueued;
        if (const auto counts = outbox_->counts()) lane.counts = *counts;
        if (const auto lag = outbox_->lag_seconds()) lane.lag_seconds = *lag;
        lane.totals = service.totals(name_);
        sent_.emplace_back(now, lane.counts.sent);
        // Two at least: a slow machine may look less often than the window is long.
        while (sent_.size() > 2 && now - sent_.front().first > kRateWindow) sent_.pop_front();
        const double span = to_seconds(now - sent_.front().first);
        if (span > 0) lane.sent_per_second = static_cast<double>(lane.counts.sent - sent_.front().second) / span;
        return lane;
    }

private:
    const std::string name_;
    std::unique_ptr<Table> outbox_;
    std::deque<std::pair<Instant, std::int64_t>> sent_;  // over the last kRateWindow
};

/// Looks at everything now and then and draws it.
class Viewer {
public:
    Viewer(std::ostream& out, bool colour, daemon::Service& service, DemoReceiver& receiver, LastFailures& failures,
           const Traffic& traffic, std::unique_ptr<store::EventOutbox> events)
        : out_(out),
          service_(service),
          receiver_(receiver),
          failures_(failures),
          traffic_(traffic),
          memories_("memories", service.database().memory_outbox("memories")),
          orders_("orders", service.database().orders_outbox({}, "orders")),
          events_("events", std::move(events)),
          letters_(service.database().dead_letters()),
          terminal_(isatty(STDOUT_FILENO) == 1),
          colour_(terminal_ && colour),
          start_(clock_.now()) {}
    ~Viewer() { leave(); }

    [[nodiscard]] Duration interval() const { return terminal_ ? kFrameInterval : kLineInterval; }

    DemoState look() {
        DemoState state;
        const Instant now = clock_.now();
        state.elapsed_seconds = to_seconds(now - start_);
        state.api_address = service_.address();
        state.memories = memories_.look(service_, now, traffic_.memories());
        state.orders = orders_.look(service_, now, service_.orders_accepted());
        state.events = events_.look(service_, now, traffic_.events());
        state.letters = look_at_letters();
        state.orders_posted_again = traffic_.posted_again();
        state.receiver = receiver_.counts();
        state.last_failures = failures_.lines();
        return state;
    }

    void draw(DemoState state, bool draining) {
        state.draining = draining;
        if (terminal_) {
            // The alternate screen: what was on the terminal before is there again after the demo.
            if (!std::exchange(on_other_screen_, true)) out_ << "\x1b[?1049h\x1b[?25l";
            out_ << redrawn(render_frame(state, colour_, screen_size()));
        } else {
            out_ << render_line(state);
        }
        out_.flush();
    }

    /// Back to the screen as it was, with the cursor: what is printed from here on stays.
    void leave() {
        if (std::exchange(on_other_screen_, false)) out_ << "\x1b[?25h\x1b[?1049l";
        out_.flush();
    }

    /// False once what was drawn could not be written: nobody is watching any more.
    [[nodiscard]] bool seen() const { return out_.good(); }

private:
    DemoLetters look_at_letters() {
        DemoLetters sum;
        sum.sent_back = traffic_.sent_back();
        const auto topics = letters_->topics();
        if (!topics) return sum;
        for (const store::TopicCounts& topic : *topics) {
            sum.pending += topic.pending + topic.retrying;
            sum.resolved += topic.resolved;
            sum.dead += topic.dead;
        }
        return sum;
    }

    /// From the top left, each line's rest cleared as it is written: no flicker, as a cleared screen would have.
    /// Without a line break after the last one, which would scroll a screen that is full.
    static std::string redrawn(std::string_view frame) {
        std::string out = "\x1b[H";
        if (frame.ends_with('\n')) frame.remove_suffix(1);
        for (const char c : frame) {
            if (c == '\n') out += "\x1b[K";
            out += c;
        }
        return out + "\x1b[K\x1b[J";
    }

    /// Asked each time, because windows change. The usual size if the terminal does not tell.
    static ScreenSize screen_size() {
        ScreenSize size;
        winsize told{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &told) != 0) return size;
        if (told.ws_col > 0) size.columns = told.ws_col;
        if (told.ws_row > 0) size.rows = told.ws_row;
        return size;
    }

    std::ostream& out_;
    daemon::Service& service_;
    DemoReceiver& receiver_;
    LastFailures& failures_;
    const Traffic& traffic_;
    LaneView<store::RowQueue> memories_;
    LaneView<store::RowQueue> orders_;
    LaneView<store::EventOutbox> events_;
    const std::unique_ptr<store::DeadLetters> letters_;
    const bool terminal_;
    const bool colour_;
    bool on_other_screen_ = false;
    SystemClock clock_;
    const Instant start_;
};

void watch(daemon::StopSignals& signals, Viewer& viewer, double seconds) {
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

Result<void> run_demo(const DemoArguments& arguments, std::ostream& out, bool colour) {
    daemon::StopSignals signals;
    const TemporaryFolder folder("deliverd-demo");
    if (folder.path().empty()) return permanent("no_folder", "cannot make a temporary folder; is TMPDIR right?");
    NullLog log;  // failures are what the demo shows, not news for a log
    TRY_ASSIGN(auto receiver, DemoReceiver::start({}, SystemRandom().next()));
    LastFailures failures;
    TRY_ASSIGN(auto service, start_service(arguments, folder.path(), receiver->address(), log, failures));

    out << fmt::format("metrics at {0}/metrics, health at {0}/readyz, dead letters at {0}/api/v1/dlq\n",
                       service->address());
    TRY_ASSIGN(auto events, service->database().event_outbox({.lane = "events"}));
    TRY_ASSIGN(const auto traffic, Traffic::start(service->database(), service->address(), arguments.rate, log));
    Viewer viewer(out, colour, *service, *receiver, failures, *traffic, std::move(events));
    watch(signals, viewer, arguments.seconds);

    // The receiver last: until the lanes have stopped, it answers what they send.
    traffic->stop();
    viewer.draw(viewer.look(), true);
    signals.on_signal(2, [&service] { service->hurry(); });
    service->stop(kDrainPatience);
    signals.clear_actions();
    receiver->stop();
    // After everything has stopped, so that nothing changes between the counts that are compared.
    const DemoState end = viewer.look();
    viewer.leave();
    out << render_totals(end);
    out.flush();
    const auto adds_up = [](const auto& lane) { return lane.second->adds_up(); };
    if (!std::ranges::all_of(end.lanes(), adds_up)) return permanent("totals", "the totals do not add up");
    return {};
}

}  // namespace deliverd::demo
