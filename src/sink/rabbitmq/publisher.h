// The work of the sink's thread: keeps a connection, publishes waiting messages, reports each message's outcome.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "sink/rabbitmq/connection.h"
#include "sink/rabbitmq/properties.h"
#include "sink/rabbitmq/window.h"
#include "sink/reconnect.h"

namespace deliverd::sink {

/// One thread at a time; blocks only while it connects, for at most connect_timeout. Reports each job once.
class RabbitmqPublisher {
public:
    RabbitmqPublisher(const RabbitmqTarget& target, Log& log, SocketCutter& cutter)
        : target_(target),
          log_(log),
          connection_log_(log, "rabbitmq", target.url.server.place()),
          cutter_(cutter),
          properties_(target.options.attributes) {}

    /// Takes over messages. They wait until they can be published, for at most the sink's timeout.
    void take(const std::deque<Job>& jobs) { waiting_.insert(waiting_.end(), jobs.begin(), jobs.end()); }

    /// Does what it can without waiting; connects when that is due.
    void work();

    /// Nothing waits and nothing is under way.
    [[nodiscard]] bool idle() const { return waiting_.empty() && window_.live() == 0; }

    /// When work() must be called again at the latest; earlier when socket() becomes readable, or writable where
    /// wants_to_write().
    [[nodiscard]] Instant next_work() const;
    [[nodiscard]] int socket() const { return connection_ ? connection_->fd() : -1; }
    [[nodiscard]] bool wants_to_write() const { return socket_full_; }
    /// socket() became readable.
    void heard() { last_heard_ = clock_.now(); }

    /// Reports what is left as STOPPED and closes the connection, properly if nothing was left.
    void give_up();

private:
    void connect();
    void refuse_waiting();
    void publish();
    [[nodiscard]] bool may_publish() const;
    [[nodiscard]] bool goes_alone(const Message& message) const;
    void read();
    void handle(const ServerEvent& event);
    void settle(const Confirmed& confirmed);
    void expire();
    void channel_closed(const ChannelClosed& closed);
    void lose(const std::string& why);
    void forget_connection(bool try_at_once);
    /// Reports everything under way; only the youngest can be partly sent.
    void end_all(const Outcome& sent, const Outcome& part_sent);

    const RabbitmqTarget& target_;
    Log& log_;
    ConnectionLog connection_log_;
    SocketCutter& cutter_;
    const SystemClock clock_;
    MessageProperties properties_;

    std::deque<Job> waiting_;
    std::unordered_set<std::string> suspects_;  // message ids; one of them made the server close the channel

    std::unique_ptr<RabbitmqConnection> connection_;
    Error trouble_{ErrorClass::retryable, std::string(kBrokerUnreachable), "not connected yet"};
    Instant next_attempt_{};
    Backoff backoff_{std::chrono::seconds(2)};

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

}  // namespace deliverd::sink
