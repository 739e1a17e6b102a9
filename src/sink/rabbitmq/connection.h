// One connection to RabbitMQ with one channel in confirm mode. One thread at a time (rabbitmq-c is not thread-safe).
#pragma once

#include <amqp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "base/handle.h"
#include "base/mutex.h"
#include "deliverd/result.h"
#include "message/message.h"
#include "sink/rabbitmq/properties.h"
#include "sink/rabbitmq/rabbitmq_options.h"
#include "sink/server_url.h"

namespace deliverd::sink {

inline constexpr amqp_channel_t kChannel = 1;  // the only one of a connection

/// A text of the server, as one short line.
[[nodiscard]] std::string text_of(amqp_bytes_t bytes);

[[nodiscard]] timeval timeval_of(Duration span);

/// The parts of amqp://user:password@host:port/vhost.
struct AmqpUrl {
    bool tls = false;
    ServerUrl server{};       // user and password are guest where none is written, the port 5672 or 5671 (TLS)
    std::string vhost = "/";  // where none is written
};

/// As parse_server_url(); the virtual host "/" is written %2F or left out.
[[nodiscard]] Result<AmqpUrl> parse_amqp_url(std::string_view url);

/// Where to connect, checked.
struct RabbitmqTarget {
    RabbitmqSinkOptions options;
    AmqpUrl url;
};
/// Failure as of check_rabbitmq_options().
[[nodiscard]] Result<RabbitmqTarget> make_rabbitmq_target(RabbitmqSinkOptions options);

/// Lets another thread end the wait of the thread that works with a connection's socket. Thread-safe.
class SocketCutter {
public:
    void set(int fd);
    /// Every wait for this socket, or a later one, fails at once. The connection is lost.
    void cut();

private:
    Mutex mutex_;
    int fd_ GUARDED_BY(mutex_) = -1;
    bool is_cut_ GUARDED_BY(mutex_) = false;
};

// The server's events.
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
    bool now;  // false: publishing may resume
    std::string reason;
};
struct ChannelClosed {
    int code;
    std::string reason;
};
/// Also when the server closed it properly. The last event.
struct ConnectionLost {
    std::string reason;
};
using ServerEvent = std::variant<Confirmed, Returned, Blocked, ChannelClosed, ConnectionLost>;

class RabbitmqConnection {
public:
    enum class Sent {
        nothing,  // the socket takes no more bytes now
        part,     // continue with send_more() when the socket is writable
        whole,
        failed,  // the connection is lost; how much went out is unknown
    };

    /// Connects (TLS), logs in, checks that the exchange exists, opens the channel. Blocks for at most `limit` plus the
    /// system's time to resolve the host's name. Failure: retryable, with a text for people:
    /// BROKER_UNREACHABLE, ACCESS_REFUSED (user, password, virtual host), NO_EXCHANGE, PASSWORD_UNREADABLE.
    static Result<std::unique_ptr<RabbitmqConnection>> open(const RabbitmqTarget& target, Duration limit,
                                                            SocketCutter& cutter);
    /// Drops the connection. close() closes it properly first and waits at most `limit` for the server's answer.
    ~RabbitmqConnection() { cutter_.set(-1); }
    void close(Duration limit);

    /// Publishes without waiting: persistent, mandatory. `message` must stay valid until all of it is sent.
    Sent publish(const Message& message, const MessageProperties& properties);
    Sent send_more();

    /// Between on and off, bytes go out in full packets only: less work for the server, which reads them one by one.
    void gather(bool on) const;

    /// The server's next event; none when there is none now. Never waits. Answers and sends heartbeats: call it several
    /// times per heartbeat.
    std::optional<ServerEvent> next();

    [[nodiscard]] int fd() const { return fd_; }

private:
    RabbitmqConnection(const RabbitmqTarget& target, SocketCutter& cutter)
        : target_(target), cutter_(cutter), state_(amqp_new_connection()) {}
    Result<void> connect(Instant deadline);
    Result<void> log_in(Instant deadline);
    Result<void> open_channel(Instant deadline);
    Result<amqp_socket_t*> make_socket();
    [[nodiscard]] Failure unreachable(std::string_view why) const;
    [[nodiscard]] bool writable() const;
    std::optional<ServerEvent> read(const amqp_frame_t& frame);
    std::optional<ServerEvent> read_method(const amqp_frame_t& frame);

    const RabbitmqTarget& target_;
    SocketCutter& cutter_;
    std::string certificate_problem_;  // before state_, whose TLS context points to it
    Handle<amqp_connection_state_t_, amqp_destroy_connection> state_;
    int fd_ = -1;
    std::size_t budget_ = 0;            // bytes that the socket takes without waiting
    std::string_view body_left_;        // of the message that is partly sent
    std::optional<Returned> returned_;  // its properties have not come yet
};

}  // namespace deliverd::sink
