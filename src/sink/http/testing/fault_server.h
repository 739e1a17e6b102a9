// For tests: a TCP server that misbehaves as a script tells it to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace deliverd::sink {

/// One accepted connection, seen from the server.
class Peer {
public:
    explicit Peer(int fd) : fd_(fd) {}

    [[nodiscard]] int fd() const { return fd_; }

    /// Head and body of the next request; none when the client is gone.
    std::optional<std::string> read_request() {
        std::size_t end = std::string::npos;
        while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
            if (!fill()) return std::nullopt;
        }
        std::size_t size = end + 4;
        const auto length = pending_.find("Content-Length: ");
        if (length < end) size += std::strtoul(pending_.c_str() + length + 16, nullptr, 10);
        while (pending_.size() < size) {
            if (!fill()) return std::nullopt;
        }
        std::string request = pending_.substr(0, size);
        pending_.erase(0, size);
        return request;
    }

    /// False when the client is gone.
    bool write(std::string_view bytes) const {
        while (!bytes.empty()) {
            const auto count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(count));
        }
        return true;
    }

    void wait_until_closed() {
        while (fill()) pending_.clear();
    }

private:
    bool fill() {
        char chunk[16384];
        const auto count = ::recv(fd_, chunk, sizeof chunk, 0);
        if (count <= 0) return false;
        pending_.append(chunk, static_cast<std::size_t>(count));
        return true;
    }

    int fd_;
    std::string pending_;
};

/// Runs `script` for each connection on a thread of its own and closes the connection when it returns.
class FaultServer {
public:
    using Script = std::function<void(Peer&)>;

    explicit FaultServer(Script script)
        : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            std::abort();
        }
        port_ = ntohs(address.sin_port);
        acceptor_ = std::thread([this] { accept_all(); });
    }

    ~FaultServer() {
        ::shutdown(listener_, SHUT_RDWR);
        acceptor_.join();
        {
            const std::lock_guard lock(mutex_);
            for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
        }
        for (auto& thread : threads_) thread.join();
        ::close(listener_);
    }
    FaultServer(const FaultServer&) = delete;
    FaultServer& operator=(const FaultServer&) = delete;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] int accepts() const { return accepts_; }
    [[nodiscard]] std::string url(std::string_view scheme = "http") const {
        return std::string(scheme) + "://127.0.0.1:" + std::to_string(port_) + "/in";
    }

private:
    void accept_all() {
        while (true) {
            const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (fd < 0) return;
            ++accepts_;
            const std::lock_guard lock(mutex_);
            open_.push_back(fd);
            threads_.emplace_back([this, fd] { serve(fd); });
        }
    }

    void serve(int fd) {
        Peer peer(fd);
        script_(peer);
        const std::lock_guard lock(mutex_);
        std::erase(open_, fd);
        ::close(fd);
    }

    Script script_;
    int listener_;
    std::uint16_t port_ = 0;
    std::atomic<int> accepts_ = 0;
    std::mutex mutex_;
    std::vector<int> open_;
    std::vector<std::thread> threads_;
    std::thread acceptor_;
};

}  // namespace deliverd::sink
