#include "sink/rabbitmq/rabbitmq_sink.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/try.h"
#include "sink/rabbitmq/connection.h"
#include "sink/rabbitmq/publisher.h"
#include "sink/secret_file.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxWaiting = 100'000;  // messages handed over that the thread has not taken over yet
constexpr Duration kLongestHeartbeat = std::chrono::hours(1);

class RabbitmqSink final : public ThreadSink {
public:
    RabbitmqSink(RabbitmqTarget target, Log& log)
        : target_(std::move(target)),
          wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          publisher_(target_, log, cutter_) {
        if (wake_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
        begin();
    }
    ~RabbitmqSink() override {
        stop(Duration::zero());
        ::close(wake_);
    }

    Result<void> check(Duration deadline) override {
        SocketCutter cutter;  // not the thread's
        const auto begin = clock_.now();
        TRY_ASSIGN(auto opened, RabbitmqConnection::open(target_, deadline, cutter));
        opened->close(std::max<Duration>(deadline - (clock_.now() - begin), std::chrono::milliseconds(1)));
        return {};
    }

    [[nodiscard]] std::string_view name() const override { return "rabbitmq"; }

private:
    void wake() override REQUIRES(mutex_) {
        const std::uint64_t one = 1;
        (void)!::write(wake_, &one, sizeof one);  // full: it is awake already
    }

    void cut() override REQUIRES(mutex_) { cutter_.cut(); }
    [[nodiscard]] std::optional<Outcome> refusal() const override REQUIRES(mutex_) {
        if (incoming_.size() < kMaxWaiting) return std::nullopt;
        return not_attempted("BROKER_BLOCKED", "too many messages wait for RabbitMQ");
    }

    void run() override {
        while (const auto until = next_wait()) wait(*until);
        publisher_.give_up();
    }

    /// Takes over what was sent meanwhile and works on it. When to work again; none when the sink has finished.
    std::optional<Instant> next_wait() {
        std::deque<Job> jobs;
        std::optional<Instant> stop_at;
        {
            const MutexLock lock(mutex_);
            jobs.swap(incoming_);
            stop_at = stop_at_;
        }
        publisher_.take(jobs);
        if (stop_at && (publisher_.idle() || *stop_at <= clock_.now())) return std::nullopt;
        publisher_.work();
        if (!stop_at) return publisher_.next_work();
        if (publisher_.idle()) return std::nullopt;
        return std::min(*stop_at, publisher_.next_work());
    }

    void wait(Instant until) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.now()).count();
        std::array<pollfd, 2> watched{
            {{wake_, POLLIN, 0},
             {publisher_.socket(), static_cast<short>(publisher_.wants_to_write() ? POLLIN | POLLOUT : POLLIN), 0}}};
        ::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
        if ((watched[1].revents & POLLIN) != 0) publisher_.heard();
        std::uint64_t count = 0;
        if ((watched[0].revents & POLLIN) != 0) (void)!::read(wake_, &count, sizeof count);
    }

    const RabbitmqTarget target_;
    SocketCutter cutter_;
    const int wake_;  // eventfd: messages were handed over, or a stop was requested

    RabbitmqPublisher publisher_;  // used by the thread only
};

Result<RabbitmqTarget> make_target(RabbitmqSinkOptions options) {
    TRY_ASSIGN(auto url, parse_amqp_url(options.url));
    if (options.exchange.size() > kMaxShortString) {
        return bad_argument("the sink's exchange has more than 255 bytes, which RabbitMQ does not take");
    }
    if (options.timeout <= Duration::zero() || options.connect_timeout <= Duration::zero()) {
        return bad_argument("the sink's timeout and connect_timeout must be longer than 0");
    }
    if (options.heartbeat < std::chrono::seconds(1) || options.heartbeat > kLongestHeartbeat) {
        return bad_argument("the sink's heartbeat must be from 1 second to 1 hour");
    }
    TRY(check_ca_file(options.ca_file));
    return RabbitmqTarget{std::move(options), std::move(url)};
}

}  // namespace

Result<void> check_rabbitmq_options(const RabbitmqSinkOptions& options) {
    TRY(make_target(options));
    return {};
}

Result<std::unique_ptr<Sink>> make_rabbitmq_sink(RabbitmqSinkOptions options, Log& log) {
    TRY_ASSIGN(auto target, make_target(std::move(options)));
    try {
        return std::make_unique<RabbitmqSink>(std::move(target), log);
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start the RabbitMQ sink: {}", error.what()));
    }
}

}  // namespace deliverd::sink
