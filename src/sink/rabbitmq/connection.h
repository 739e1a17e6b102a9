// One connection to RabbitMQ with one channel in confirm mode. One thread at a time (rabbitmq-c is not thread-safe).
#pragma once

#include <amqp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"
#include "sink/rabbitmq/amqp_url.h"
#include "sink/rabbitmq/properties.h"
#include "sink/rabbitmq/rabbitmq_options.h"

namespace deliverd::sink {

inline constexpr amqp_channel_t kChannel = 1;  // the only one of a connection

/// Where to connect, checked.
struct RabbitmqTarget {
    RabbitmqSinkOptions options;
    AmqpUrl url;
};

/// The socket of the connection a thread works with, for another thread that must end its waiting. Thread-safe.
class SocketCutter {
public:
    void set(int fd);
    /// Whatever waits for the socket, or for a later one, fails at once. The connection is lost then.
    void cut();

private:
    std::mutex mutex_;
    int fd_ = -1;
    bool is_cut_ = false;
};

// What a server says.
struct Confirmed {
    std::uint64_t tag;
    bool multiple;
    bool ack;  // else nack
};
struct Returned {
    std::string message_id;
    std::string reason;
};
struct Blocked {
    bool now;  // false: publishing may go on
    std::string reason;
};
struct ChannelClosed {
    int code;
    std::string reason;
};
/// Also when the server closed it in good manners. Nothing follows.
struct ConnectionLost {
    std::string reason;
};
using ServerEvent = std::variant<Confirmed, Returned, Blocked, ChannelClosed, ConnectionLost>;

class RabbitmqConnection {
public:
    enum class Sent {
        nothing,  // the socket takes nothing more now
        part,     // go on with send_more() when the socket is writable
        whole,
        failed,  // the connection is lost; how much went out is not known
    };

    /// Connects (TLS), logs in, looks whether the exchange exists, opens the channel. Blocks for at most `limit`,
    /// besides what the system needs to look up the host's name. Failure: retryable, with a text for people:
    /// BROKER_UNREACHABLE, ACCESS_REFUSED (user, password, virtual host), NO_EXCHANGE, PASSWORD_UNREADABLE.
    static Result<std::unique_ptr<RabbitmqConnection>> open(const RabbitmqTarget& target, Duration limit,
                                                            SocketCutter& cutter);
    /// Closes without a word. close() says goodbye first, and waits at most `limit` for the answer.
    ~RabbitmqConnection();
    void close(Duration limit);
    RabbitmqConnection(const RabbitmqConnection&) = delete;
    RabbitmqConnection& operator=(const RabbitmqConnection&) = delete;

    /// Publishes without waiting: persistent, mandatory. `message` must stay until the whole of it is sent.
    Sent publish(const Message& message, const MessageProperties& properties);
    Sent send_more();

    /// Between on and off, what is sent goes out in full packets: less work for the server, which reads them one by
    /// one.
    void gather(bool on) const;

    /// What the server has said, one at a time; none when there is nothing more for now. Never waits. Answers and
    /// sends heartbeats: to be called several times within a heartbeat's time.
    std::optional<ServerEvent> next();

    [[nodiscard]] int fd() const { return fd_; }

private:
    struct StateDeleter {
        void operator()(amqp_connection_state_t state) const { amqp_destroy_connection(state); }
    };

    RabbitmqConnection(const RabbitmqTarget& target, SocketCutter& cutter);
    Result<void> connect(Instant deadline);
    Result<void> log_in(Instant deadline);
    Result<void> open_channel(Instant deadline);
    Result<amqp_socket_t*> make_socket();
    [[nodiscard]] bool writable() const;
    std::optional<ServerEvent> read(const amqp_frame_t& frame);
    std::optional<ServerEvent> read_method(const amqp_frame_t& frame);

    const RabbitmqTarget& target_;
    SocketCutter& cutter_;
    std::string certificate_problem_;  // before state_, whose TLS context points to it
    std::unique_ptr<amqp_connection_state_t_, StateDeleter> state_;
    int fd_ = -1;
    std::size_t budget_ = 0;            // bytes the socket surely takes without waiting
    std::string_view body_left_;        // of the message that is partly sent
    std::optional<Returned> returned_;  // its properties are still to come
};

}  // namespace deliverd::sink
