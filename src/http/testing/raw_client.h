// For tests: a client that sends exactly the bytes it is told to and waits with deadlines.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace deliverd::http {

class RawClient {
public:
    using Deadline = std::chrono::steady_clock::time_point;
    static constexpr auto kPatience = std::chrono::seconds(20);  // a test that waits this long has failed

    explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    }
    ~RawClient() { ::close(fd_); }
    RawClient(RawClient&& other) noexcept
        : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), pending_(std::move(other.pending_)) {}
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;
    RawClient& operator=(RawClient&&) = delete;

    [[nodiscard]] bool connected() const { return connected_; }
    [[nodiscard]] int fd() const { return fd_; }

    /// False when the peer has closed or does not read.
    bool send(std::string_view bytes) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (!bytes.empty()) {
            if (!ready(POLLOUT, deadline)) return false;
            const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) continue;
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    void finish_sending() { ::shutdown(fd_, SHUT_WR); }

    /// One response: its head, and as much body as Content-Length says (`with_body`). What was read so far
    /// when the connection ended earlier or the patience did.
    std::string response(bool with_body = true) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        std::size_t end = std::string::npos;
        while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
            if (!fill(deadline)) return std::exchange(pending_, {});
        }
        std::size_t size = end + 4;
        const auto length = pending_.find("Content-Length: ");
        if (with_body && length < end) size += std::strtoul(pending_.c_str() + length + 16, nullptr, 10);
        while (pending_.size() < size) {
            if (!fill(deadline)) return std::exchange(pending_, {});
        }
        std::string one = pending_.substr(0, size);
        pending_.erase(0, size);
        return one;
    }

    /// Whether the peer closes (or resets) within the patience; what it sends before is kept in rest().
    bool closed() {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (fill(deadline)) {
        }
        return std::chrono::steady_clock::now() < deadline;
    }
    [[nodiscard]] const std::string& rest() const { return pending_; }

    /// Waits until something can be read or the connection has ended.
    bool readable(std::chrono::milliseconds patience) {
        return !pending_.empty() || ready(POLLIN, std::chrono::steady_clock::now() + patience);
    }

private:
    bool ready(short events, Deadline deadline) const {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd entry{fd_, events, 0};
        return left.count() > 0 && ::poll(&entry, 1, static_cast<int>(left.count())) > 0;
    }

    bool fill(Deadline deadline) {
        if (!ready(POLLIN, deadline)) return false;
        char chunk[16384];
        const auto count = ::recv(fd_, chunk, sizeof chunk, 0);
        if (count <= 0) return false;
        pending_.append(chunk, static_cast<std::size_t>(count));
        return true;
    }

    int fd_;
    bool connected_ = false;
    std::string pending_;
};

}  // namespace deliverd::http
