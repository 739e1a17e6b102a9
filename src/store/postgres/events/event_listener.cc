#include <algorithm>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "store/postgres/events/event_outbox.h"

namespace deliverd::store::postgres {
namespace {

class Listener final : public EventListener {
public:
    Listener(PoolOptions options, Log& log, std::function<void()> on_event)
        : options_(std::move(options)), log_(log), on_event_(std::move(on_event)), thread_([this] { run(); }) {}

    ~Listener() override {
        limit_.set(Duration::zero());  // ends every wait on the connection
        {
            const MutexLock lock(mutex_);
            stopping_ = true;
        }
        stop_.notify_all();
        thread_.join();
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

private:
    void run() {
        Duration wait = kMinReconnectWait;
        bool warned = false;
        while (!stopped()) {
            const Result<void> ended = hear([&] {
                if (warned) log_.info("listening for new events again", {});
                warned = false;
                wait = kMinReconnectWait;
            });
            if (stopped()) return;
            // Once per outage: the relay still polls, so nothing is lost but a little time.
            if (!warned && !ended) {
                log_.warn("cannot listen for new events, only poll for them", {{"cause", ended.error().message}});
                warned = true;
            }
            {
                const MutexLock lock(mutex_);
                stop_.wait_for(mutex_, wait, [this]() REQUIRES(mutex_) { return stopping_; });
            }
            wait = std::min(wait * 2, kMaxReconnectWait);
        }
    }

    /// Returns when the connection is lost.
    Result<void> hear(const std::function<void()>& on_connected) {
        const auto now = [] { return std::chrono::steady_clock::now(); };
        const auto began = now();
        const std::string conninfo = options_.refresh_conninfo ? options_.refresh_conninfo() : options_.conninfo;
        TRY_ASSIGN(auto opened, Connection::open(conninfo, options_.session, began + options_.connect_timeout, limit_));
        Connection& connection = *opened;
        TRY(connection.script("listen deliverd_outbox", Effect::read));
        on_connected();
        on_event_();  // there was nobody to notify before LISTEN
        for (;;) {
            TRY_ASSIGN(auto heard, connection.wait_for_notification(now() + kListenCheck));
            if (stopped()) return {};
            if (heard) {
                on_event_();
            } else {
                // A connection that a firewall dropped looks idle for ever; only an answer shows that it is there.
                TRY(connection.script("select 1", Effect::read));
            }
        }
    }

    bool stopped() {
        const MutexLock lock(mutex_);
        return stopping_;
    }

    const PoolOptions options_;
    Log& log_;
    const std::function<void()> on_event_;
    WaitLimit limit_;
    Mutex mutex_;
    Condition stop_;
    bool stopping_ GUARDED_BY(mutex_) = false;
    std::thread thread_;  // last: it uses all the others
};

}  // namespace

std::unique_ptr<EventListener> make_event_listener(PoolOptions options, Log& log, std::function<void()> on_event) {
    return std::make_unique<Listener>(std::move(options), log, std::move(on_event));
}

}  // namespace deliverd::store::postgres
