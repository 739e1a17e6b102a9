#include "sink/rabbitmq/rabbitmq_sink.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/try.h"
#include "sink/rabbitmq/closing.h"
#include "sink/rabbitmq/connection.h"
#include "sink/rabbitmq/properties.h"
#include "sink/rabbitmq/window.h"
#include "sink/reconnect.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxUnconfirmed = 4096;  // messages under way at once
constexpr std::size_t kMaxAbandoned = 1024;    // tags without a confirm, before the connection is replaced
constexpr int kPublishesPerRound = 256;        // before the server is heard again
constexpr int kEventsPerRound = 1024;
constexpr std::size_t kAloneBytes = 1024UL * 1024;  // a server may refuse a body this large
constexpr std::size_t kMaxSuspects = 2 * kMaxUnconfirmed;
constexpr Duration kGoodbye = std::chrono::milliseconds(500);
constexpr Duration kLongestSleep = std::chrono::seconds(5);
constexpr Duration kLongestReconnectPause = std::chrono::seconds(2);

constexpr std::string_view kConnectionLost = "CONNECTION_LOST";
constexpr std::string_view kBlocked = "BROKER_BLOCKED";

/// Its thread owns the connection: rabbitmq-c is not thread-safe. It blocks only in wait() and while it connects.
class RabbitmqSink final : public ThreadSink {
public:
    RabbitmqSink(RabbitmqTarget target, Log& log)
        : target_(std::move(target)),
          wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          log_(log),
          connection_log_(log, "rabbitmq", target_.url.server.place()),
          properties_(target_.options.attributes) {
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

private:
    // --- the thread ---

    void wake() override REQUIRES(mutex_) {
        const std::uint64_t one = 1;
        (void)!::write(wake_, &one, sizeof one);  // full: it is awake already
    }

    void cut() override REQUIRES(mutex_) { cutter_.cut(); }

    void run() override {
        while (const auto until = next_wait()) wait(*until);
        give_up();
    }

    /// Takes over what was sent meanwhile and works on it. When to work again; none when the sink has finished.
    std::optional<Instant> next_wait() {
        std::optional<Instant> stop_at;
        {
            const MutexLock lock(mutex_);
            waiting_.insert(waiting_.end(), incoming_.begin(), incoming_.end());
            incoming_.clear();
            stop_at = stop_at_;
        }
        if (stop_at && (idle() || *stop_at <= clock_.now())) return std::nullopt;
        work();
        if (!stop_at) return next_work();
        if (idle()) return std::nullopt;
        return std::min(*stop_at, next_work());
    }

    void wait(Instant until) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.now()).count();
        const auto events = static_cast<short>(socket_full_ ? POLLIN | POLLOUT : POLLIN);
        std::array<pollfd, 2> watched{{{wake_, POLLIN, 0}, {connection_ ? connection_->fd() : -1, events, 0}}};
        ::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
        if ((watched[1].revents & POLLIN) != 0) last_heard_ = clock_.now();
        std::uint64_t count = 0;
        if ((watched[0].revents & POLLIN) != 0) (void)!::read(wake_, &count, sizeof count);
    }

    /// Nothing waits and nothing is under way.
    [[nodiscard]] bool idle() const { return waiting_.empty() && window_.live() == 0; }

    /// Does what it can without waiting; connects when that is due.
    void work() {
        more_to_do_ = false;
        if (!connection_ && clock_.now() >= next_attempt_) connect();
        if (!connection_) {
            // The caller keeps its messages until the server is back.
            for (const auto& job : std::exchange(waiting_, {})) job.report(trouble_);
            return;
        }
        publish();
        if (connection_) read();
        if (connection_) expire();
        if (!connection_ || (!socket_full_ && may_publish())) more_to_do_ = true;  // a confirm may have made room
    }

    /// When to work again at the latest.
    [[nodiscard]] Instant next_work() const {
        const Instant now = clock_.now();
        if (more_to_do_) return now;
        if (!connection_) return next_attempt_;
        // Heartbeats are answered and sent only while the connection is read.
        Instant until = now + std::min(kLongestSleep, target_.options.heartbeat / 4);
        if (const auto deadline = window_.next_deadline()) until = std::min(until, *deadline);
        if (!waiting_.empty()) until = std::min(until, waiting_.front().arrived + target_.options.timeout);
        return until;
    }

    /// Reports what is left as STOPPED and closes the connection, properly if nothing was left.
    void give_up() {
        if (idle() && connection_) connection_->close(kGoodbye);
        end_all(stopped_under_way(), stopped_unsent());
        for (const auto& job : std::exchange(waiting_, {})) job.report(stopped_unsent());
        connection_.reset();
    }

    // --- the connection ---

    void connect() {
        auto opened = RabbitmqConnection::open(target_, target_.options.connect_timeout, cutter_);
        last_heard_ = clock_.now();
        if (!opened) {
            connection_log_.failed(opened.error().message);
            trouble_ = not_attempted(opened.error().code, opened.error().message);
            forget_connection(false);
            return;
        }
        connection_log_.connected();
        connection_ = std::move(*opened);
    }

    /// Schedules the next attempt. Only a confirm makes the next pause the shortest: a server that accepts connections
    /// and closes each at the first message would otherwise be asked without a pause.
    void forget_connection(bool try_at_once) {
        connection_.reset();
        window_ = {};
        blocked_ = part_sent_ = socket_full_ = one_at_a_time_ = false;
        if (std::exchange(proven_, false) || try_at_once) {
            backoff_.reset();
            next_attempt_ = clock_.now();
            return;
        }
        next_attempt_ = clock_.now() + backoff_.next();
    }

    void lose(const std::string& why) {
        const std::string detail = fmt::format("connection to RabbitMQ at {} lost: {}", connection_log_.server(), why);
        connection_log_.lost(why);
        trouble_ = not_attempted(kBrokerUnreachable, detail);
        end_all(failed_attempt(OutcomeKind::ambiguous, kConnectionLost, detail + "; the message may have arrived"),
                failed_attempt(OutcomeKind::retryable, kConnectionLost, detail + " before the whole message was sent"));
        forget_connection(false);
    }

    /// Reports everything under way; only the youngest can be partly sent.
    void end_all(const Outcome& sent, const Outcome& part_sent) {
        const std::size_t whole = window_.live() - (part_sent_ ? 1 : 0);
        std::size_t index = 0;
        window_.take_all([&](const Job& job) { job.report(index++ < whole ? sent : part_sent); });
    }

    // --- publishing ---

    [[nodiscard]] bool goes_alone(const Message& message) const {
        return message.body.size() >= kAloneBytes || (!suspects_.empty() && suspects_.contains(message.message_id));
    }

    [[nodiscard]] bool may_publish() const {
        if (waiting_.empty() || blocked_ || part_sent_ || window_.tags() >= kMaxUnconfirmed) return false;
        if (window_.tags() - window_.live() >= kMaxAbandoned) return false;
        if (window_.live() == 0) return true;
        // The first on a connection goes alone: a server that refuses every message then refuses only one.
        return proven_ && !one_at_a_time_ && !goes_alone(*waiting_.front().message);
    }

    void publish() {
        using Sent = RabbitmqConnection::Sent;
        auto sent = part_sent_ ? connection_->send_more() : Sent::whole;
        if (part_sent_) part_sent_ = sent == Sent::part;
        const bool gathers = sent == Sent::whole && may_publish();
        if (gathers) connection_->gather(true);
        for (int count = 0; count < kPublishesPerRound && sent == Sent::whole && may_publish(); ++count) {
            const Job job = waiting_.front();
            if (const auto built = properties_.build(*job.message); !built) {
                waiting_.pop_front();
                job.report(failed_attempt(OutcomeKind::permanent, built.error().code, built.error().message));
                continue;
            }
            sent = connection_->publish(*job.message, properties_);
            if (sent == Sent::nothing) break;
            waiting_.pop_front();
            one_at_a_time_ = goes_alone(*job.message);
            part_deadline_ = clock_.now() + target_.options.timeout;
            // Even after a failed write: how much went out is unknown, and lose() reports what is in the window.
            window_.add(job, part_deadline_);
            part_sent_ = sent == Sent::part;
        }
        if (gathers) connection_->gather(false);
        socket_full_ = sent == Sent::nothing || sent == Sent::part;
        if (sent == Sent::failed) lose("the connection broke while sending");
    }

    // --- the server's events ---

    void read() {
        for (int count = 0; connection_ && count < kEventsPerRound; ++count) {
            const auto event = connection_->next();
            if (!event) return;
            last_heard_ = clock_.now();
            std::visit([this](const auto& one) { on(one); }, *event);
        }
        more_to_do_ = true;
    }

    void on(const Confirmed& confirmed) {
        proven_ = true;
        backoff_.reset();
        const auto settle_job = [&](const Job& job, bool returned) {
            // Confirmed or refused by itself, so it is not the one that closes channels.
            if (!suspects_.empty()) suspects_.erase(job.message->message_id);
            if (!confirmed.ack) {
                // The default exchange has one queue behind it; behind another, a queue that had room may have it.
                const bool one_queue = target_.options.exchange.empty();
                job.report(
                    failed_attempt(one_queue ? OutcomeKind::retryable : OutcomeKind::ambiguous, "NACKED",
                                   "RabbitMQ could not accept the message (basic.nack): a queue is full, or failed"));
            } else if (returned) {
                job.report(failed_attempt(OutcomeKind::retryable, "UNROUTABLE",
                                          fmt::format("no queue receives it: exchange '{}', routing key '{}'; bind a "
                                                      "queue to them",
                                                      target_.options.exchange, job.message->topic)));
            } else {
                job.report({.kind = OutcomeKind::delivered});
            }
        };
        if (!window_.settle(confirmed.tag, confirmed.multiple, settle_job)) {
            lose("the server confirmed a message that was never sent");
        }
    }

    void on(const Returned& returned) { window_.mark_returned(returned.message_id); }

    void on(const Blocked& blocked) {
        blocked_ = blocked.now;
        blocked_reason_ = blocked.reason;
        log_.warn(blocked_ ? "RabbitMQ blocks publishers" : "RabbitMQ accepts messages again",
                  {{"reason", blocked_reason_}});
    }

    void on(const ChannelClosed& closed) {
        std::vector<Job> jobs;
        const bool has_more = window_.tags() > window_.live();
        window_.take_all([&](const Job& job) { jobs.push_back(job); });
        const auto verdicts = judge_closing(closed, {jobs, part_sent_, has_more});
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            const auto& id = jobs[i].message->message_id;
            if (verdicts[i].is_suspect && suspects_.size() < kMaxSuspects) suspects_.insert(id);
            if (verdicts[i].kind == OutcomeKind::permanent) suspects_.erase(id);
            jobs[i].report(failed_attempt(verdicts[i].kind, verdicts[i].code, verdicts[i].detail));
        }
        log_.warn("RabbitMQ closed the channel", {{"server", connection_log_.server()}, {"reason", closed.reason}});
        trouble_ = not_attempted(code_of_closing(closed.code), fmt::format("RabbitMQ at {} closed the channel: {}",
                                                                           connection_log_.server(), closed.reason));
        connection_->close(kGoodbye);
        // At once where one message was at fault: the others have nothing to wait for.
        forget_connection(closed.code == kPreconditionFailed);
    }

    void on(const ConnectionLost& lost) { lose(lost.reason); }

    // --- time ---

    void expire() {
        const Instant now = clock_.now();
        const Duration timeout = target_.options.timeout;
        const bool part_is_late = part_sent_ && part_deadline_ <= now;
        bool any = false;
        // Otherwise lose() reports them below, and knows that the youngest did not go out as a whole.
        if (!part_is_late) {
            window_.expire(now, [&](const Job& job) {
                any = true;
                job.report(failed_attempt(OutcomeKind::ambiguous, "CONFIRM_TIMEOUT",
                                          "RabbitMQ did not confirm the message within the sink's timeout; it may "
                                          "have it"));
            });
        }
        while (!waiting_.empty() && waiting_.front().arrived + timeout <= now) {
            const auto job = waiting_.front();
            waiting_.pop_front();
            job.report(not_attempted(
                kBlocked, blocked_
                              ? fmt::format("RabbitMQ blocks publishers: {}; free memory or disk space on its server",
                                            blocked_reason_)
                              : "RabbitMQ is too slow: messages sent before this one are not confirmed yet"));
        }
        // Neither a confirm nor anything else came: what is sent now would time out as well.
        const bool is_silent = any && !blocked_ && now - last_heard_ >= timeout;
        if (part_is_late || is_silent) {
            lose("the server is silent");
        } else if (window_.live() == 0 && window_.tags() >= kMaxAbandoned) {
            lose("the server leaves too many messages unconfirmed");
        }
    }

    const RabbitmqTarget target_;
    SocketCutter cutter_;
    const int wake_;  // eventfd: messages were handed over, or a stop was requested

    // Used by the thread only.
    Log& log_;
    ConnectionLog connection_log_;
    MessageProperties properties_;
    std::deque<Job> waiting_;                   // for at most the sink's timeout, until they can be published
    std::unordered_set<std::string> suspects_;  // message ids; one of them made the server close the channel

    std::unique_ptr<RabbitmqConnection> connection_;
    Outcome trouble_ = not_attempted(kBrokerUnreachable, "not connected yet");  // of messages meanwhile
    Instant next_attempt_{};
    Backoff backoff_{kLongestReconnectPause};

    // State of the present connection.
    ConfirmWindow window_;
    bool proven_ = false;         // it has confirmed something
    bool one_at_a_time_ = false;  // what is under way goes alone
    bool part_sent_ = false;      // of the youngest under way
    Instant part_deadline_{};
    bool socket_full_ = false;
    bool more_to_do_ = false;
    bool blocked_ = false;
    std::string blocked_reason_;
    Instant last_heard_{};
};

}  // namespace

Result<std::unique_ptr<Sink>> make_rabbitmq_sink(RabbitmqSinkOptions options, Log& log) {
    TRY_ASSIGN(auto target, make_rabbitmq_target(std::move(options)));
    return start_sink<RabbitmqSink>("RabbitMQ", std::move(target), log);
}

}  // namespace deliverd::sink
