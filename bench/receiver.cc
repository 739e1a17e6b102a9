// A broker for the benchmark: takes every order and answers with its key, after DELAY_MS. Prints its port. Ends when
// its standard input ends.
#include <fmt/format.h>

#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "http/server.h"

namespace {

using namespace deliverd;

/// Sends answers after a fixed time, which keeps them in order: one thread is enough.
class Later {
public:
    explicit Later(Duration delay) : delay_(delay), thread_([this] { send_until_closed(); }) {}
    ~Later() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;

    void send(const http::Reply& reply, http::Response response) {
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back({clock_.now() + delay_, reply, std::move(response)});
        }
        changed_.notify_one();
    }

private:
    struct Waiting {
        Instant due;
        http::Reply reply;
        http::Response response;
    };

    void send_until_closed() {
        std::unique_lock lock(mutex_);
        while (!closed_) {
            if (waiting_.empty()) {
                changed_.wait(lock);
            } else if (waiting_.front().due > clock_.now()) {
                changed_.wait_until(lock, waiting_.front().due, [this] { return closed_; });
            } else {
                waiting_.front().reply(std::move(waiting_.front().response));
                waiting_.pop_front();
            }
        }
    }

    const Duration delay_;
    const SystemClock clock_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Waiting> waiting_;  // at most one per connection
    bool closed_ = false;
    std::thread thread_;
};

http::Response taken(std::string_view key) {
    return {200, {}, "application/json", fmt::format(R"({{"broker_order_id":"b-{0}","idempotency_key":"{0}"}})", key)};
}

}  // namespace

int main(int count, char** arguments) {
    const std::string_view text = count == 2 ? arguments[1] : "";
    int delay_ms = -1;
    std::from_chars(text.data(), text.data() + text.size(), delay_ms);
    if (delay_ms < 0) {
        fmt::print(stderr, "usage: bench_receiver DELAY_MS\n");
        return 2;
    }
    Later later{std::chrono::milliseconds(delay_ms)};
    http::ServerOptions options;
    options.port = 0;
    options.is_quick = [](const http::Request&) { return true; };
    const http::DeferredHandler handler = [&later, delay_ms](const http::Request& request, const http::Reply& reply) {
        auto response = taken(request.header("Idempotency-Key"));
        if (delay_ms == 0) return reply(std::move(response));
        later.send(reply, std::move(response));
    };
    const auto server = http::Server::start(options, handler, {});
    if (!server) {
        fmt::print(stderr, "{}\n", server.error().message);
        return 1;
    }
    fmt::print("{}\n", (*server)->port());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    (*server)->stop(Duration::zero());
    return 0;
}
