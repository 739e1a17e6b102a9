// Reading a started stream.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/assert.h"
#include "base/try.h"
#include "wal/replication_stream.h"

namespace deliverd::wal {
namespace {

using std::chrono::steady_clock;

/// The server sends each change by itself. Woken for each of them, a reader spends most of its time waking up; the
/// socket holds what comes within a nap of this length.
constexpr std::chrono::milliseconds kNap{1};
/// So many wake-ups within one nap's time, and the stream pours; so few messages after a nap, and it does not any more.
constexpr std::size_t kPouring = 8;
/// After that much in one go there is no nap: the socket must not fill up, because then the server waits.
constexpr std::size_t kNoNapBytes = 64UL * 1024;
/// The server's last words after it ended the stream.
constexpr std::chrono::seconds kLastWords{5};

struct FreeCopied {
    void operator()(char* bytes) const { PQfreemem(bytes); }
};
using Copied = std::unique_ptr<char, FreeCopied>;

/// One message of the stream. `size`: its bytes, 0 if none is there yet, negative at the end of the stream.
Copied next_message(PGconn* connection, int& size) {
    char* bytes = nullptr;
    size = PQgetCopyData(connection, &bytes, 1);
    return Copied(bytes);
}

}  // namespace

Result<ReplicationStream::Taken> ReplicationStream::read(std::size_t byte_budget, Deadline deadline, const Take& take) {
    ASSERT(streaming_);
    const bool listening = byte_budget > 0;
    const bool napped = listening && pouring_ && !left_over_;
    if (napped) nap();
    Taken taken;
    for (;;) {
        if (listening) TRY(drain(byte_budget, take, taken));
        if (taken.messages > 0) {
            last_heard_ = steady_clock::now();
            asked_at_.reset();
        }
        TRY(keep_alive(listening));
        if (taken.messages > 0) break;
        if (!wait(listening, deadline)) break;
    }
    if (listening) left_over_ = taken.more;
    if (napped && !taken.more) pouring_ = taken.messages >= kPouring && taken.bytes < kNoNapBytes;
    return taken;
}

Result<void> ReplicationStream::drain(std::size_t byte_budget, const Take& take, Taken& taken) {
    PGconn* raw = connection_.get();
    // A TLS record may lie half-read in libpq, where poll() does not see it.
    int tries = PQsslInUse(raw) != 0 ? 2 : 1;
    for (;;) {
        bool some = false;
        for (;;) {
            if (taken.bytes >= byte_budget) {
                taken.more = true;
                return {};
            }
            int size = 0;
            const Copied bytes = next_message(raw, size);
            if (size == 0) break;
            if (size < 0) return ended();
            some = true;
            ++taken.messages;
            taken.bytes += static_cast<std::size_t>(size);
            TRY(hand_over({bytes.get(), static_cast<std::size_t>(size)}, take));
        }
        if (!some && tries-- == 0) return {};
        if (PQconsumeInput(raw) != 1) return lost("the server closed it");
    }
}

Result<void> ReplicationStream::hand_over(std::string_view bytes, const Take& take) {
    TRY_ASSIGN(const StreamMessage message, read_stream_message(bytes));
    if (const auto* keepalive = std::get_if<Keepalive>(&message)) {
        received_ = std::max(received_, keepalive->server_end);
        if (keepalive->reply_wanted) TRY(send_status(false));
    } else {
        received_ = std::max(received_, std::get<LogData>(message).start);
    }
    return take(message);
}

Result<void> ReplicationStream::status(Lsn confirmed) {
    ASSERT(streaming_);
    if (confirmed <= confirmed_) return {};
    confirmed_ = confirmed;
    received_ = std::max(received_, confirmed);
    return send_status(false);
}

Result<void> ReplicationStream::keep_alive(bool listening) {
    const auto now = steady_clock::now();
    if (!listening) {
        // The sign of life may be in the socket, behind data that nobody takes.
        asked_at_.reset();
        last_heard_ = now;
    } else if (asked_at_ && now - *asked_at_ > settings_.silence_limit) {
        return lost(
            fmt::format("the server has said nothing for {} seconds", static_cast<int>(to_seconds(now - last_heard_))));
    }
    if (unsent_) TRY(flush());
    if (now - last_status_ < settings_.status_interval) return {};
    const bool silent = listening && now - last_heard_ >= settings_.status_interval;
    if (silent && !asked_at_) asked_at_ = now;
    return send_status(silent);
}

Result<void> ReplicationStream::send_status(bool reply_wanted) {
    if (unsent_) TRY(flush());
    if (unsent_) return {};  // the server reads nothing: more would only pile up here
    std::string update = status_update(received_, confirmed_, SystemClock().wall_now());
    if (reply_wanted) update.back() = '\1';
    if (PQputCopyData(connection_.get(), update.data(), static_cast<int>(update.size())) != 1) {
        return lost("a status could not be sent");
    }
    last_status_ = steady_clock::now();
    return flush();
}

Result<void> ReplicationStream::flush() {
    const int left = PQflush(connection_.get());
    if (left < 0) return lost("a status could not be sent");
    unsent_ = left > 0;
    return {};
}

bool ReplicationStream::wait(bool for_bytes, Deadline deadline) {
    PGconn* raw = connection_.get();
    const auto events = static_cast<short>((for_bytes ? POLLIN : 0) | (unsent_ ? POLLOUT : 0));
    for (;;) {
        const auto now = steady_clock::now();
        const Deadline end = limit_.cap(deadline);
        if (now >= end) return false;
        const auto due = last_status_ + std::chrono::duration_cast<Deadline::duration>(settings_.status_interval);
        if (now >= due) return true;
        // Another thread may bring the limit forward at any time, and that wakes nobody.
        const auto slice = std::min<Duration>(std::min(end, due) - now, store::kWaitSlice);
        // A socket from which nothing is wanted is not asked: one that the server closed would never let poll() wait.
        std::array<pollfd, 2> entries{pollfd{waker_.descriptor(), POLLIN, 0},
                                      pollfd{events == 0 ? -1 : PQsocket(raw), events, 0}};
        const int ready = ::poll(entries.data(), entries.size(),
                                 static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(slice).count()));
        if (ready < 0 && errno != EINTR) return true;  // libpq will find the same fault and name it
        if (entries[0].revents != 0) {
            waker_.clear();
            return false;
        }
        if (ready > 0) {
            count_wake_up(steady_clock::now());
            return true;
        }
        if (for_bytes && PQsslInUse(raw) != 0) return true;
    }
}

void ReplicationStream::count_wake_up(Deadline now) {
    if (now - busy_since_ > kNap) {
        busy_since_ = now;
        wake_ups_ = 0;
    }
    if (++wake_ups_ >= kPouring) pouring_ = true;
}

void ReplicationStream::nap() {
    pollfd entry{waker_.descriptor(), POLLIN, 0};
    static_cast<void>(::poll(&entry, 1, static_cast<int>(kNap.count())));
}

Failure ReplicationStream::ended() {
    const auto result = next_result(steady_clock::now() + kLastWords);
    if (!result) return Failure(result.error());
    const PGresult* said = result->get();
    if (said == nullptr || PQresultStatus(said) != PGRES_FATAL_ERROR) {
        return lost("the server ended the stream; it may be stopping");
    }
    const std::string message = client::message_of(said);
    const std::string_view sqlstate = client::sqlstate_of(said);
    // A slot that is missing was refused at the start: this is what pgoutput looks up, at the first change.
    if (sqlstate == "42704") {
        return permanent(
            std::string(kPublicationMissing),
            fmt::format("PostgreSQL: {}; create it, or correct the lane's `wal.publication`: a publication "
                        "must have existed before the changes that are read",
                        message));
    }
    return Failure(client::postgres_error(sqlstate, message, client::Effect::read, true));
}

void ReplicationStream::close(Duration at_most) {
    const auto deadline = steady_clock::now() + std::chrono::duration_cast<Deadline::duration>(at_most);
    PGconn* raw = connection_.get();
    // With bytes in the socket that nobody read, closing it would reset the connection, and the server could miss the
    // last status. So the stream is ended and what is still in it read first.
    if (streaming_ && send_status(false) && PQputCopyEnd(raw, nullptr) == 1) {
        int size = 0;
        while (size >= 0 && steady_clock::now() < deadline) {
            if (PQflush(raw) < 0) break;
            const Copied dropped = next_message(raw, size);
            if (size != 0) continue;
            if (!store::postgres::wait_for_socket(raw, POLLIN, deadline, limit_) || PQconsumeInput(raw) != 1) break;
        }
        if (size == -1) static_cast<void>(next_result(deadline));
    }
    streaming_ = false;
    connection_.reset();
}

}  // namespace deliverd::wal
