#include "sink/rabbitmq/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "sink/rabbitmq/closing.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxUnconfirmed = 4096;  // messages on the way at once
constexpr std::size_t kMaxAbandoned = 1024;    // tags that were never confirmed, before the connection is replaced
constexpr int kPublishesARound = 256;          // then look at what the server says
constexpr int kEventsARound = 1024;
constexpr std::size_t kAloneBytes = 1024UL * 1024;  // a server may refuse one that is this large
constexpr std::size_t kMaxSuspects = 2 * kMaxUnconfirmed;
constexpr Duration kFirstBackoff = std::chrono::milliseconds(50);
constexpr Duration kLongestBackoff = std::chrono::seconds(2);
constexpr Duration kGoodbye = std::chrono::milliseconds(500);
constexpr Duration kLongestSleep = std::chrono::seconds(5);

constexpr std::string_view kConnectionLost = "CONNECTION_LOST";
constexpr std::string_view kBlocked = "BROKER_BLOCKED";

}  // namespace

void RabbitmqPublisher::report(const Job& job, OutcomeKind kind, std::string_view code, std::string_view detail,
                               bool not_attempted) {
    Outcome outcome;
    outcome.kind = kind;
    outcome.code = code;
    outcome.detail = shorten(one_line(detail), kMaxDetailBytes);
    outcome.not_attempted = not_attempted;
    job.receiver->on_outcome(*job.message, std::move(outcome));
}

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
        if (!in_trouble_) log_.warn("no connection to RabbitMQ", {{"error", opened.error().message}});
        in_trouble_ = true;
        trouble_ = std::move(opened.error());
        forget_connection(false);
        return;
    }
    if (in_trouble_) log_.info("connected to RabbitMQ again", {{"server", target_.url.place()}});
    in_trouble_ = false;
    connection_ = std::move(*opened);
}

/// Afterwards the next attempt is due, by the backoff.
void RabbitmqPublisher::forget_connection(bool try_at_once) {
    connection_.reset();
    window_ = {};
    blocked_ = part_sent_ = socket_full_ = one_at_a_time_ = false;
    if (std::exchange(proven_, false) || try_at_once) {
        backoff_ = {};
        next_attempt_ = clock_.now();
        return;
    }
    backoff_ = std::clamp(backoff_ * 2, kFirstBackoff, kLongestBackoff);
    next_attempt_ = clock_.now() + backoff_;
}

void RabbitmqPublisher::refuse_waiting() {
    for (const auto& job : std::exchange(waiting_, {})) {
        report(job, OutcomeKind::retryable, trouble_.code, trouble_.message, true);
    }
}

bool RabbitmqPublisher::goes_alone(const Message& message) const {
    return message.body.size() >= kAloneBytes || (!suspects_.empty() && suspects_.contains(message.message_id));
}

bool RabbitmqPublisher::may_publish() const {
    if (waiting_.empty() || blocked_ || part_sent_ || window_.tags() >= kMaxUnconfirmed) return false;
    if (window_.tags() - window_.live() >= kMaxAbandoned) return false;
    if (window_.live() == 0) return true;
    // The first on a connection goes alone: where the server refuses every message, it shows on one.
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
        if (++count > kPublishesARound) {
            more_to_do_ = true;
            break;
        }
        const Job job = waiting_.front();
        if (const auto built = properties_.build(*job.message); !built) {
            waiting_.pop_front();
            report(job, OutcomeKind::permanent, built.error().code, built.error().message);
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
        if (count == kEventsARound) {
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
    backoff_ = {};
    const auto settle_job = [&](const Job& job, bool returned) {
        if (!suspects_.empty()) suspects_.erase(job.message->message_id);
        if (!confirmed.ack) {
            // Behind the default exchange there is one queue; behind another, one that had room may have it.
            const bool one_queue = target_.options.exchange.empty();
            report(job, one_queue ? OutcomeKind::retryable : OutcomeKind::ambiguous, "NACKED",
                   "RabbitMQ could not take the message (basic.nack): a queue is full, or failed");
        } else if (returned) {
            report(job, OutcomeKind::retryable, "UNROUTABLE",
                   fmt::format("no queue takes it: exchange '{}', routing key '{}'; bind a queue to them",
                               target_.options.exchange, job.message->topic));
        } else {
            report(job, OutcomeKind::delivered, "", "");
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
            report(job, OutcomeKind::ambiguous, "CONFIRM_TIMEOUT",
                   "RabbitMQ did not confirm the message within the sink's timeout; it may have it");
        });
    }
    while (!waiting_.empty() && waiting_.front().arrived + timeout <= now) {
        const auto job = waiting_.front();
        waiting_.pop_front();
        report(job, OutcomeKind::retryable, kBlocked,
               blocked_
                   ? fmt::format("RabbitMQ takes no messages for now: {}; free memory or disk there", blocked_reason_)
                   : "RabbitMQ is too slow: messages sent before this one are not confirmed yet",
               true);
    }
    // Neither a confirm nor anything else: what is sent after that would share the same fate.
    const bool is_silent = any && !blocked_ && now - last_heard_ >= timeout;
    if (part_is_late || is_silent) {
        lose("the server is silent");
    } else if (window_.live() == 0 && window_.tags() >= kMaxAbandoned) {
        lose("the server leaves too many messages unconfirmed");
    }
}

void RabbitmqPublisher::lose(const std::string& why) {
    const std::string detail = fmt::format("connection to RabbitMQ at {} lost: {}", target_.url.place(), why);
    if (!in_trouble_) log_.warn("connection to RabbitMQ lost", {{"server", target_.url.place()}, {"reason", why}});
    in_trouble_ = true;
    trouble_ = {ErrorClass::retryable, std::string(kBrokerUnreachable), detail};
    const std::size_t whole = window_.live() - (part_sent_ ? 1 : 0);
    std::size_t index = 0;
    window_.take_all([&](const Job& job) {
        if (index++ < whole) {
            report(job, OutcomeKind::ambiguous, kConnectionLost, detail + "; the message may have arrived");
        } else {
            report(job, OutcomeKind::retryable, kConnectionLost, detail + " before the message was sent as a whole");
        }
    });
    forget_connection(false);
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
        report(jobs[i], verdicts[i].kind, verdicts[i].code, verdicts[i].detail);
    }
    log_.warn("RabbitMQ closed the channel", {{"server", target_.url.place()}, {"reason", closed.reason}});
    trouble_ = {ErrorClass::retryable, std::string(code_of_closing(closed.code)),
                fmt::format("RabbitMQ at {} closed the channel: {}", target_.url.place(), closed.reason)};
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
    const std::size_t whole = window_.live() - (part_sent_ ? 1 : 0);
    std::size_t index = 0;
    window_.take_all([&](const Job& job) {
        const bool went_out = index++ < whole;
        report(job, went_out ? OutcomeKind::ambiguous : OutcomeKind::retryable, kStopped,
               went_out ? "the sink was stopped before the confirm came" : "the sink was stopped while sending it");
    });
    for (const auto& job : std::exchange(waiting_, {})) {
        report(job, OutcomeKind::retryable, kStopped, "the sink was stopped; nothing was sent");
    }
    connection_.reset();
}

}  // namespace deliverd::sink
