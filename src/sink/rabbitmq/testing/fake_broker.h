// For tests: the little of AMQP 0-9-1 that a server needs to take publishes, for faults no real server shows.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sink/http/testing/fault_server.h"

namespace deliverd::sink {

inline std::string big_endian(std::uint64_t value, int bytes) {
    std::string out;
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
    return out;
}

inline std::string amqp_frame(char type, int channel, std::string_view payload) {
    return std::string(1, type) + big_endian(static_cast<std::uint64_t>(channel), 2) + big_endian(payload.size(), 4) +
           std::string(payload) + '\xCE';
}

inline std::string amqp_method(int channel, int class_id, int method, std::string_view arguments) {
    return amqp_frame(1, channel,
                      big_endian(static_cast<std::uint64_t>(class_id), 2) +
                          big_endian(static_cast<std::uint64_t>(method), 2) + std::string(arguments));
}

inline std::string amqp_ack(std::uint64_t tag, bool multiple = false) {
    return amqp_method(1, 60, 80, big_endian(tag, 8) + (multiple ? '\1' : '\0'));
}

inline std::string amqp_channel_closed(int code, std::string_view text) {
    return amqp_method(1, 20, 40,
                       big_endian(static_cast<std::uint64_t>(code), 2) + static_cast<char>(text.size()) +
                           std::string(text) + big_endian(0, 4));
}

/// One client, seen from the server.
class FakeBroker {
public:
    explicit FakeBroker(Peer& peer) : peer_(peer) {}

    /// Up to and with confirm.select; false when the client is gone.
    bool shake_hands() {
        if (!read(8)) return false;
        peer_.write(amqp_method(
            0, 10, 10,
            std::string("\0\x09", 2) + big_endian(0, 4) + big_endian(5, 4) + "PLAIN" + big_endian(5, 4) + "en_US"));
        peer_.write(amqp_method(0, 10, 30, big_endian(1, 2) + big_endian(131072, 4) + big_endian(0, 2)));
        return wait_for(10, 40) && peer_.write(amqp_method(0, 10, 41, std::string(1, '\0'))) && wait_for(20, 10) &&
               peer_.write(amqp_method(1, 20, 11, big_endian(0, 4))) && wait_for(85, 10) &&
               peer_.write(amqp_method(1, 85, 11, ""));
    }

    /// The body of the next message that was published whole; none when the client is gone.
    std::optional<std::string> next_publish() {
        if (!wait_for(60, 40)) return std::nullopt;
        const auto header = next_frame();
        if (!header) return std::nullopt;
        std::uint64_t size = 0;
        for (std::size_t i = 4; i < 12; ++i) size = size << 8U | static_cast<unsigned char>(header->at(i));
        std::string body;
        while (body.size() < size) {
            const auto piece = next_frame();
            if (!piece) return std::nullopt;
            body += *piece;
        }
        return body;
    }

private:
    std::optional<std::string> read(std::size_t size) {
        std::string out(size, '\0');
        if (::recv(peer_.fd(), out.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return std::nullopt;
        return out;
    }

    /// Its payload.
    std::optional<std::string> next_frame() {
        while (true) {
            const auto head = read(7);
            if (!head) return std::nullopt;
            std::size_t size = 0;
            for (std::size_t i = 3; i < 7; ++i) size = size << 8U | static_cast<unsigned char>(head->at(i));
            auto payload = read(size + 1);
            if (!payload) return std::nullopt;
            payload->pop_back();
            if (head->at(0) != 8) return payload;  // no heartbeat
        }
    }

    bool wait_for(int class_id, int method) {
        const auto wanted =
            big_endian(static_cast<std::uint64_t>(class_id), 2) + big_endian(static_cast<std::uint64_t>(method), 2);
        while (const auto payload = next_frame()) {
            if (payload->starts_with(wanted)) return true;
        }
        return false;
    }

    Peer& peer_;
};

}  // namespace deliverd::sink
