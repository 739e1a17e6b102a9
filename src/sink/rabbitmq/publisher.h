// What the sink's thread does: keeps a connection, publishes what waits, tells each message's outcome.
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

namespace deliverd::sink {

/// One thread at a time; blocks only while it connects, for at most connect_timeout. Reports each job once.
class RabbitmqPublisher {
public:
    RabbitmqPublisher(const RabbitmqTarget& target, Log& log, SocketCutter& cutter)
        : target_(target), log_(log), cutter_(cutter), properties_(target.options.attributes) {}

    /// They wait until they can be published, for at most the sink's timeout.
    void take(const std::deque<Job>& jobs) { waiting_.insert(waiting_.end(), jobs.begin(), jobs.end()); }

    /// Does what can be done without waiting, and connects where that is due.
    void work();

    /// Nothing waits and nothing is under way.
    [[nodiscard]] bool idle() const { return waiting_.empty() && window_.live() == 0; }

    /// When work() has something to do again, at the latest; socket() may give it more before: it is to be watched
    /// for reading, and where wants_to_write(), for writing.
    [[nodiscard]] Instant next_work() const;
    [[nodiscard]] int socket() const { return connection_ ? connection_->fd() : -1; }
    [[nodiscard]] bool wants_to_write() const { return socket_full_; }
    /// Something has come in at socket().
    void heard() { last_heard_ = clock_.now(); }

    /// Reports what is left as STOPPED and closes the connection; says goodbye where nothing was left.
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
    void report(const Job& job, OutcomeKind kind, std::string_view code, std::string_view detail,
                bool not_attempted = false);

    const RabbitmqTarget& target_;
    Log& log_;
    SocketCutter& cutter_;
    const SystemClock clock_;
    MessageProperties properties_;

    std::deque<Job> waiting_;
    std::unordered_set<std::string> suspects_;  // ids of messages of which one made the server close the channel

    std::unique_ptr<RabbitmqConnection> connection_;
    Error trouble_{ErrorClass::retryable, std::string(kBrokerUnreachable), "not connected yet"};
    bool in_trouble_ = false;  // and it was logged
    Instant next_attempt_{};
    Duration backoff_{};

    // Of the present connection.
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
