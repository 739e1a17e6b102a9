#include "store/postgres/events/event_listener.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace deliverd::store::postgres {
namespace {

class Listener final : public EventListener {
public:
    Listener(PoolOptions options, Log& log, std::function<void()> on_event)
        : options_(std::move(options)), log_(log), on_event_(std::move(on_event)), thread_([this] { run(); }) {}

    ~Listener() override {
        limit_.set(Duration::zero());  // ends every wait on the connection
        {
            const std::lock_guard lock(mutex_);
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
        bool told = false;
        while (!stopped()) {
            const Result<void> ended = hear([&] {
                if (told) log_.info("events are heard of again", {});
                told = false;
                wait = kMinReconnectWait;
            });
            if (stopped()) return;
            if (!told && !ended) {
                log_.warn("events are not heard of for now, only looked for", {{"cause", ended.error().message}});
                told = true;
            }
            std::unique_lock lock(mutex_);
            stop_.wait_for(lock, wait, [this] { return stopping_; });
            wait = std::min(wait * 2, kMaxReconnectWait);
        }
    }

    /// Until the connection is lost.
    Result<void> hear(const std::function<void()>& on_connected) {
        const auto now = [] { return std::chrono::steady_clock::now(); };
        const auto began = now();
        const std::string conninfo = options_.refresh_conninfo ? options_.refresh_conninfo() : options_.conninfo;
        auto opened = Connection::open(conninfo, options_.session, began + options_.connect_timeout, limit_);
        if (!opened) return Failure(std::move(opened.error()));
        Connection& connection = **opened;
        if (auto done = connection.script("listen deliverd_outbox", Effect::read, connection.statement_deadline());
            !done) {
            return done;
        }
        on_connected();
        on_event_();  // something may have been missed
        for (;;) {
            auto heard = connection.wait_for_notification(now() + kListenCheck);
            if (!heard) return Failure(std::move(heard.error()));
            if (stopped()) return {};
            if (*heard) {
                on_event_();
            } else if (auto there = connection.script("select 1", Effect::read, connection.statement_deadline());
                       !there) {
                return there;
            }
        }
    }

    bool stopped() {
        const std::lock_guard lock(mutex_);
        return stopping_;
    }

    const PoolOptions options_;
    Log& log_;
    const std::function<void()> on_event_;
    WaitLimit limit_;
    std::mutex mutex_;
    std::condition_variable stop_;
    bool stopping_ = false;
    std::thread thread_;  // last: it uses all the others
};

}  // namespace

std::unique_ptr<EventListener> make_event_listener(PoolOptions options, Log& log, std::function<void()> on_event) {
    return std::make_unique<Listener>(std::move(options), log, std::move(on_event));
}

}  // namespace deliverd::store::postgres
