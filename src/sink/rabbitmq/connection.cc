#include "sink/rabbitmq/connection.h"

#include <amqp.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/text.h"

namespace deliverd::sink {

namespace {

// A writable socket has room for a third of its buffer: what is written between two checks stays below that.
constexpr std::size_t kWriteBudget = 64UL * 1024;
constexpr std::size_t kMaxBodyFrameBytes = 32UL * 1024;
constexpr std::size_t kFramingBytes = 128;  // of one message, about
constexpr std::size_t kMaxReasonBytes = 200;

}  // namespace

std::string text_of(amqp_bytes_t bytes) {
    return shorten(one_line({static_cast<const char*>(bytes.bytes), bytes.len}), kMaxReasonBytes);
}

timeval timeval_of(Duration span) {
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(span).count();
    return {micros / 1'000'000, micros % 1'000'000};
}

void SocketCutter::set(int fd) {
    const MutexLock lock(mutex_);
    fd_ = fd;
    if (is_cut_ && fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

void SocketCutter::cut() {
    const MutexLock lock(mutex_);
    // shutdown() and not close(): the number of a closed socket could belong to another file by now.
    is_cut_ = true;
    if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

void RabbitmqConnection::close(Duration limit) {
    const timeval wait = timeval_of(limit);
    amqp_set_rpc_timeout(state_.get(), &wait);
    amqp_connection_close(state_.get(), AMQP_REPLY_SUCCESS);
}

void RabbitmqConnection::gather(bool on) const {
    const int value = on ? 1 : 0;
    // Without effect on the result: a system that refuses it only sends smaller packets.
    ::setsockopt(fd_, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

bool RabbitmqConnection::writable() const {
    pollfd look{fd_, POLLOUT, 0};
    return ::poll(&look, 1, 0) == 1;
}

RabbitmqConnection::Sent RabbitmqConnection::publish(const Message& message, const MessageProperties& properties) {
    const std::size_t head =
        properties.bytes() + message.topic.size() + target_.options.exchange.size() + kFramingBytes;
    // Small messages share one look at the socket, which saves a system call for each.
    const bool is_small = head + message.body.size() <= kWriteBudget;
    const std::size_t cost = is_small ? head + message.body.size() : head;
    if (budget_ < cost) {
        if (!writable()) return Sent::nothing;
        budget_ = kWriteBudget;
    }
    budget_ -= cost;
    amqp_basic_publish_t method{};
    method.exchange = amqp_bytes_of(target_.options.exchange);
    method.routing_key = amqp_bytes_of(message.topic);
    method.mandatory = 1;
    if (is_small) {
        const int status = amqp_basic_publish(state_.get(), kChannel, method.exchange, method.routing_key, 1, 0,
                                              &properties.get(), amqp_bytes_of(message.body));
        return status == AMQP_STATUS_OK ? Sent::whole : Sent::failed;
    }
    // Frame by frame, because the library waits without limit for a socket that takes no more.
    amqp_frame_t header{};
    header.frame_type = AMQP_FRAME_HEADER;
    header.channel = kChannel;
    header.payload.properties.class_id = AMQP_BASIC_CLASS;
    header.payload.properties.body_size = message.body.size();
    header.payload.properties.decoded = const_cast<amqp_basic_properties_t*>(&properties.get());
    if (amqp_send_method(state_.get(), kChannel, AMQP_BASIC_PUBLISH_METHOD, &method) != AMQP_STATUS_OK ||
        amqp_send_frame(state_.get(), &header) != AMQP_STATUS_OK) {
        return Sent::failed;
    }
    body_left_ = message.body;
    return send_more();
}

RabbitmqConnection::Sent RabbitmqConnection::send_more() {
    budget_ = 0;  // what the socket still takes is unknown now
    while (!body_left_.empty()) {
        if (!writable()) return Sent::part;
        const auto piece = body_left_.substr(0, kMaxBodyFrameBytes);
        amqp_frame_t frame{};
        frame.frame_type = AMQP_FRAME_BODY;
        frame.channel = kChannel;
        frame.payload.body_fragment = amqp_bytes_of(piece);
        if (amqp_send_frame(state_.get(), &frame) != AMQP_STATUS_OK) return Sent::failed;
        body_left_.remove_prefix(piece.size());
    }
    return Sent::whole;
}

std::optional<ServerEvent> RabbitmqConnection::next() {
    while (true) {
        amqp_maybe_release_buffers(state_.get());  // of the last call's event
        amqp_frame_t frame{};
        const timeval at_once{0, 0};
        const int status = amqp_simple_wait_frame_noblock(state_.get(), &frame, &at_once);
        if (status == AMQP_STATUS_TIMEOUT) return std::nullopt;
        if (status != AMQP_STATUS_OK) {
            // The library looks after heartbeats in this call: two missed ones end the connection here.
            return ConnectionLost{status == AMQP_STATUS_HEARTBEAT_TIMEOUT ? "no heartbeat came from the server"
                                                                          : amqp_error_string2(status)};
        }
        if (auto event = read(frame)) return event;
    }
}

std::optional<ServerEvent> RabbitmqConnection::read(const amqp_frame_t& frame) {
    if (frame.frame_type == AMQP_FRAME_METHOD) return read_method(frame);
    if (frame.frame_type != AMQP_FRAME_HEADER || frame.channel != kChannel || !returned_) return std::nullopt;
    // basic.return names no message. The properties that follow it do, by the id that we gave it.
    const auto* properties = static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
    if ((properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0) {
        returned_->message_id.assign(static_cast<const char*>(properties->message_id.bytes),
                                     properties->message_id.len);
    }
    ServerEvent event = std::move(*returned_);  // its body, which we know, is skipped
    returned_.reset();
    return event;
}

std::optional<ServerEvent> RabbitmqConnection::read_method(const amqp_frame_t& frame) {
    const void* decoded = frame.payload.method.decoded;
    switch (frame.payload.method.id) {
        case AMQP_BASIC_ACK_METHOD: {
            const auto* ack = static_cast<const amqp_basic_ack_t*>(decoded);
            return Confirmed{ack->delivery_tag, ack->multiple != 0, true};
        }
        case AMQP_BASIC_NACK_METHOD: {
            const auto* nack = static_cast<const amqp_basic_nack_t*>(decoded);
            return Confirmed{nack->delivery_tag, nack->multiple != 0, false};
        }
        case AMQP_BASIC_RETURN_METHOD:
            returned_ = Returned{{}, text_of(static_cast<const amqp_basic_return_t*>(decoded)->reply_text)};
            return std::nullopt;
        case AMQP_CONNECTION_BLOCKED_METHOD:
            return Blocked{true, text_of(static_cast<const amqp_connection_blocked_t*>(decoded)->reason)};
        case AMQP_CONNECTION_UNBLOCKED_METHOD:
            return Blocked{false, {}};
        case AMQP_CHANNEL_CLOSE_METHOD: {
            const auto* close = static_cast<const amqp_channel_close_t*>(decoded);
            return ChannelClosed{close->reply_code, text_of(close->reply_text)};
        }
        case AMQP_CONNECTION_CLOSE_METHOD: {
            const auto* close = static_cast<const amqp_connection_close_t*>(decoded);
            ConnectionLost lost{fmt::format("the server closed the connection: {}", text_of(close->reply_text))};
            amqp_connection_close_ok_t ok{};  // without it the server waits, and logs a client that vanished
            amqp_send_method(state_.get(), 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
            return lost;
        }
        default:
            return std::nullopt;
    }
}

}  // namespace deliverd::sink
