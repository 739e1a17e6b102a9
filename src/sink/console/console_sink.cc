#include "sink/console/console_sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "base/text.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

/// A writable pipe takes this much without blocking.
constexpr std::size_t kChunkBytes = PIPE_BUF;

/// Blocks SIGPIPE on this thread: a closed pipe is an error of write(2), not the end of the process.
class NoPipeSignal {
public:
    NoPipeSignal() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~NoPipeSignal() {
        const timespec at_once{};
        // A signal that our write raised still waits, and would end the process once it is let through.
        if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);  // ours, if any
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoPipeSignal(const NoPipeSignal&) = delete;
    NoPipeSignal& operator=(const NoPipeSignal&) = delete;

private:
    sigset_t pipe_{};
    sigset_t before_{};
    bool was_pending_ = false;
};

std::string to_line(const Message& message) {
    boost::json::object line = {{"id", message.id},
                                {"message_id", message.message_id},
                                {"key", message.key},
                                {"type", message.type},
                                {"content_type", message.content_type}};
    if (!message.topic.empty()) line["topic"] = message.topic;
    if (!message.created_at.empty()) line["created_at"] = message.created_at;
    boost::json::array headers;
    for (const auto& [name, value] : message.headers) headers.push_back(boost::json::array{name, value});
    line["headers"] = std::move(headers);
    if (find_invalid_utf8(message.body)) {
        line["body_hex"] = hex_text(message.body);
    } else {
        line["body"] = message.body;
    }
    // JSON may hold C1 characters, which a terminal would obey.
    return terminal_safe(boost::json::serialize(line)) + "\n";
}

struct Written {
    std::size_t bytes = 0;
    int error = 0;
};

Written write_all(int fd, std::string_view text, Instant deadline, const Clock& clock) {
    Written written;
    while (written.bytes < text.size()) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.now()).count();
        pollfd entry{fd, POLLOUT, 0};
        const int ready = left <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(left));
        if (ready == 0) return {written.bytes, ETIMEDOUT};
        // Only after a poll, and no more than fits: the stream may be somebody else's too, so it cannot be made
        // non-blocking.
        const auto chunk = text.substr(written.bytes, kChunkBytes);
        const auto count = ready < 0 ? -1 : ::write(fd, chunk.data(), chunk.size());
        if (count >= 0) {
            written.bytes += static_cast<std::size_t>(count);
        } else if (errno != EINTR && errno != EAGAIN) {
            return {written.bytes, errno};
        }
    }
    return written;
}

class ConsoleSink final : public Sink {
public:
    ConsoleSink(std::FILE* stream, Duration write_timeout)
        : stream_(stream), fd_(::fileno(stream)), write_timeout_(write_timeout) {}

    void send(std::span<const Message* const> messages, OutcomeReceiver& receiver) override {
        const NoPipeSignal quiet;
        for (const auto* message : messages) receiver.on_outcome(*message, write(*message));
    }

    void stop(Duration /*patience*/) override { stopped_ = true; }  // nothing is under way once send() returned

    Result<void> check(Duration /*deadline*/) override {
        const int flags = ::fcntl(fd_, F_GETFL);
        if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
            return permanent("WRITE_FAILED", "the console sink's stream is not open for writing");
        }
        pollfd entry{fd_, POLLOUT, 0};
        if (::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLERR | POLLNVAL)) != 0) {
            return retryable("WRITE_FAILED", "the reader of the console sink's stream is gone");
        }
        return {};
    }

private:
    Outcome write(const Message& message) {
        if (stopped_) return stopped_unsent();
        // Written past the stream's buffer, which would hide how much of a line went out; flushed first for the order.
        if (std::fflush(stream_) != 0) return failed({0, errno});
        const auto line = to_line(message);
        const auto written = write_all(fd_, line, clock_.now() + write_timeout_, clock_);
        if (written.bytes == line.size()) return {.kind = OutcomeKind::delivered};
        return failed(written);
    }

    static Outcome failed(const Written& written) {
        return failed_attempt(written.bytes == 0 ? OutcomeKind::retryable : OutcomeKind::ambiguous, "WRITE_FAILED",
                              fmt::format("cannot write to the stream: {} ({} bytes were written)",
                                          std::generic_category().message(written.error), written.bytes));
    }

    std::FILE* stream_;
    int fd_;
    Duration write_timeout_;
    const SystemClock clock_;
    std::atomic<bool> stopped_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_console_sink(std::FILE* stream, Duration write_timeout) {
    return std::make_unique<ConsoleSink>(stream, write_timeout);
}

}  // namespace deliverd::sink
