#include "sink/rabbitmq/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sink/rabbitmq/closing.h"

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

constexpr std::string_view kConnectionLost = "CONNECTION_LOST";
constexpr std::string_view kBlocked = "BROKER_BLOCKED";

}  // namespace

void RabbitmqPublisher::work() {
    more_to_do_ = false;
    if (!connection_ && clock_.now() >= next_attempt_) connect();
    if (!connection_) {
        refuse_waiting();
        return;
    }
    publish();
    if (connection_) read();
    if (connection_) expire();
    if (!connection_ || (!socket_full_ && may_publish())) more_to_do_ = true;  // a confirm may have made room
}

void RabbitmqPublisher::connect() {
    auto opened = RabbitmqConnection::open(target_, target_.options.connect_timeout, cutter_);
    last_heard_ = clock_.now();
    if (!opened) {
        connection_log_.failed(opened.error().message);
        trouble_ = std::move(opened.error());
        forget_connection(false);
        return;
    }
    connection_log_.connected();
    connection_ = std::move(*opened);
}

/// Schedules the next attempt.
void RabbitmqPublisher::forget_connection(bool try_at_once) {
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

void RabbitmqPublisher::refuse_waiting() {
    for (const auto& job : std::exchange(waiting_, {})) {
        job.report(not_attempted(trouble_.code, trouble_.message));
    }
}

bool RabbitmqPublisher::goes_alone(const Message& message) const {
    return message.body.size() >= kAloneBytes || (!suspects_.empty() && suspects_.contains(message.message_id));
}

bool RabbitmqPublisher::may_publish() const {
    if (waiting_.empty() || blocked_ || part_sent_ || window_.tags() >= kMaxUnconfirmed) return false;
    if (window_.tags() - window_.live() >= kMaxAbandoned) return false;
    if (window_.live() == 0) return true;
    // The first on a connection goes alone: a server that refuses every message then refuses only one.
    return proven_ && !one_at_a_time_ && !goes_alone(*waiting_.front().message);
}

void RabbitmqPublisher::publish() {
    using Sent = RabbitmqConnection::Sent;
    auto sent = part_sent_ ? connection_->send_more() : Sent::whole;
    if (part_sent_) part_sent_ = sent == Sent::part;
    int count = 0;
    const bool gathers = sent == Sent::whole && may_publish();
    if (gathers) connection_->gather(true);
    while (sent == Sent::whole && may_publish()) {
        if (++count > kPublishesPerRound) {
            more_to_do_ = true;
            break;
        }
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
        window_.add(job, part_deadline_);
        part_sent_ = sent == Sent::part;
    }
    if (gathers) connection_->gather(false);
    socket_full_ = sent == Sent::nothing || sent == Sent::part;
    if (sent == Sent::failed) lose("the connection broke while sending");
}

void RabbitmqPublisher::read() {
    for (int count = 0; connection_; ++count) {
        if (count == kEventsPerRound) {
            more_to_do_ = true;
            return;
        }
        const auto event = connection_->next();
        if (!event) return;
        last_heard_ = clock_.now();
        handle(*event);
    }
}

void RabbitmqPublisher::handle(const ServerEvent& event) {
    if (const auto* confirmed = std::get_if<Confirmed>(&event)) {
        settle(*confirmed);
    } else if (const auto* returned = std::get_if<Returned>(&event)) {
        window_.mark_returned(returned->message_id);
    } else if (const auto* blocked = std::get_if<Blocked>(&event)) {
        blocked_ = blocked->now;
        blocked_reason_ = blocked->reason;
        log_.warn(blocked_ ? "RabbitMQ takes no messages for now" : "RabbitMQ takes messages again",
                  {{"reason", blocked_reason_}});
    } else if (const auto* closed = std::get_if<ChannelClosed>(&event)) {
        channel_closed(*closed);
    } else if (const auto* lost = std::get_if<ConnectionLost>(&event)) {
        lose(lost->reason);
    }
}

void RabbitmqPublisher::settle(const Confirmed& confirmed) {
    proven_ = true;
    backoff_.reset();
    const auto settle_job = [&](const Job& job, bool returned) {
        if (!suspects_.empty()) suspects_.erase(job.message->message_id);
        if (!confirmed.ack) {
            // The default exchange has one queue behind it; behind another, a queue that had room may have the message.
            const bool one_queue = target_.options.exchange.empty();
            job.report(failed_attempt(one_queue ? OutcomeKind::retryable : OutcomeKind::ambiguous, "NACKED",
                                      "RabbitMQ could not take the message (basic.nack): a queue is full, or failed"));
        } else if (returned) {
            job.report(failed_attempt(OutcomeKind::retryable, "UNROUTABLE",
                                      fmt::format("no queue takes it: exchange '{}', routing key '{}'; bind a queue "
                                                  "to them",
                                                  target_.options.exchange, job.message->topic)));
        } else {
            job.report({.kind = OutcomeKind::delivered});
        }
    };
    if (!window_.settle(confirmed.tag, confirmed.multiple, settle_job)) {
        lose("the server confirmed a message that was never sent");
    }
}

void RabbitmqPublisher::expire() {
    const Instant now = clock_.now();
    const Duration timeout = target_.options.timeout;
    const bool part_is_late = part_sent_ && part_deadline_ <= now;
    bool any = false;
    if (!part_is_late) {
        window_.expire(now, [&](const Job& job) {
            any = true;
            job.report(failed_attempt(OutcomeKind::ambiguous, "CONFIRM_TIMEOUT",
                                      "RabbitMQ did not confirm the message within the sink's timeout; it may have "
                                      "it"));
        });
    }
    while (!waiting_.empty() && waiting_.front().arrived + timeout <= now) {
        const auto job = waiting_.front();
        waiting_.pop_front();
        job.report(not_attempted(
            kBlocked,
            blocked_ ? fmt::format("RabbitMQ takes no messages for now: {}; free memory or disk there", blocked_reason_)
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

void RabbitmqPublisher::lose(const std::string& why) {
    const std::string detail = fmt::format("connection to RabbitMQ at {} lost: {}", connection_log_.server(), why);
    connection_log_.lost(why);
    trouble_ = {ErrorClass::retryable, std::string(kBrokerUnreachable), detail};
    end_all(
        failed_attempt(OutcomeKind::ambiguous, kConnectionLost, detail + "; the message may have arrived"),
        failed_attempt(OutcomeKind::retryable, kConnectionLost, detail + " before the message was sent as a whole"));
    forget_connection(false);
}

void RabbitmqPublisher::end_all(const Outcome& sent, const Outcome& part_sent) {
    const std::size_t whole = window_.live() - (part_sent_ ? 1 : 0);
    std::size_t index = 0;
    window_.take_all([&](const Job& job) { job.report(index++ < whole ? sent : part_sent); });
}

void RabbitmqPublisher::channel_closed(const ChannelClosed& closed) {
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
    trouble_ = {ErrorClass::retryable, std::string(code_of_closing(closed.code)),
                fmt::format("RabbitMQ at {} closed the channel: {}", connection_log_.server(), closed.reason)};
    connection_->close(kGoodbye);
    forget_connection(closed.code == kPreconditionFailed);
}

Instant RabbitmqPublisher::next_work() const {
    const Instant now = clock_.now();
    if (more_to_do_) return now;
    if (!connection_) return next_attempt_;
    Instant until = now + std::min(kLongestSleep, target_.options.heartbeat / 4);
    if (const auto deadline = window_.next_deadline()) until = std::min(until, *deadline);
    if (!waiting_.empty()) until = std::min(until, waiting_.front().arrived + target_.options.timeout);
    return until;
}

void RabbitmqPublisher::give_up() {
    if (idle() && connection_) connection_->close(kGoodbye);
    end_all(stopped_under_way(), stopped_unsent());
    for (const auto& job : std::exchange(waiting_, {})) job.report(stopped_unsent());
    connection_.reset();
}

}  // namespace deliverd::sink
