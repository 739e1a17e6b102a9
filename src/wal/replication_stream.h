// One replication connection to PostgreSQL, which streams the changes of a logical slot.
//
//     auto stream = ReplicationStream::open(settings, deadline, limit, waker);
//     stream->identify(deadline);                              // is it the server that we know?
//     stream->start({slot, {publication}, 0}, deadline);
//     while (…) {
//         stream->read(free_bytes, deadline, [&](const StreamMessage& message) { … });
//         stream->status(progress.confirmed());
//     }
//     stream->close(at_most);
//
// The server ends a connection on which it heard nothing for wal_sender_timeout. Nobody has to care for that: read()
// sends a status at every status_interval and answers keepalives, also when it may take nothing. It has to be called
// more often than that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "client/postgres_call.h"
#include "deliverd/result.h"
#include "store/postgres/connection/connecting.h"
#include "store/wait_limit.h"
#include "wal/lsn.h"
#include "wal/stream_message.h"
#include "wal/waker.h"

namespace deliverd::wal {

using store::postgres::Deadline;

// Codes of failures. Besides these: `db_unreachable` and `db_timeout` (retryable: connect again), `wal_malformed`
// (permanent), and `db_error` for what else the server refuses.
inline constexpr std::string_view kSlotMissing = "wal_slot_missing";          // permanent
inline constexpr std::string_view kSlotInUse = "wal_slot_in_use";             // retryable: another reader has it
inline constexpr std::string_view kSlotInvalidated = "wal_slot_invalidated";  // permanent: its log is gone
inline constexpr std::string_view kSlotForeign = "wal_slot_foreign";          // permanent: other database or plugin
inline constexpr std::string_view kPublicationMissing = "wal_publication_missing";  // permanent
inline constexpr std::string_view kReplicationDenied = "wal_replication_denied";    // permanent: the role may not
inline constexpr std::string_view kWalLevelTooLow = "wal_level_too_low";            // permanent: wal_level < logical
inline constexpr std::string_view kTooManySenders = "wal_too_many_senders";         // retryable: max_wal_senders

struct ReplicationSettings {
    std::string conninfo;
    /// The longest time between two status messages; a third of the server's wal_sender_timeout where that is less.
    Duration status_interval = std::chrono::seconds(10);
    /// A server that was asked for a sign of life (after status_interval without one) and gives none for this long
    /// counts as lost; for its wal_sender_timeout where that is longer, because one that skips a large transaction
    /// looks at its connection only twice in that time.
    Duration silence_limit = std::chrono::seconds(60);
};

struct ServerIdentity {
    std::string system_identifier;  // one for a server and all its standbys
    std::uint32_t timeline = 0;     // a promotion begins another one
    Lsn current = 0;                // the end of the log
    std::string database;
};

struct StreamStart {
    std::string slot;
    std::vector<std::string> publications;  // at least one: pgoutput refuses to start without
    Lsn from = 0;                           // 0, or anything behind it: the slot's confirmed position
    bool messages = true;                   // logical messages too
};

/// One thread at a time; wake the Waker to end its wait.
class ReplicationStream {
public:
    using Take = std::function<Result<void>(const StreamMessage&)>;

    /// What one read() did.
    struct Taken {
        std::size_t messages = 0;
        std::size_t bytes = 0;
        bool more = false;  // the budget ended it: more may be there
    };

    /// Connects, blocking until `deadline` at most (libpq looks up host names without one). `limit` ends this and every
    /// later wait, also one in progress; it and `waker` outlive the stream. Failure: kReplicationDenied,
    /// kTooManySenders, otherwise as store::postgres::connect_to().
    [[nodiscard]] static Result<std::unique_ptr<ReplicationStream>> open(const ReplicationSettings& settings,
                                                                         Deadline deadline,
                                                                         const store::WaitLimit& limit, Waker& waker);
    /// Closes at once.
    ~ReplicationStream();
    ReplicationStream(const ReplicationStream&) = delete;
    ReplicationStream& operator=(const ReplicationStream&) = delete;

    /// Only before start().
    [[nodiscard]] Result<ServerIdentity> identify(Deadline deadline);

    /// Once. Failure: one of the codes above. A publication that is missing shows only in read(), when the first
    /// change is sent. After kSlotInUse it may be called again.
    [[nodiscard]] Result<void> start(const StreamStart& start, Deadline deadline);

    /// Waits until something has arrived, the waker is woken, or `deadline`. Then hands every message that is there to
    /// `take`, until they amount to `byte_budget` (the last one may exceed it); the views in a message are valid until
    /// `take` returns. With a budget of 0 it takes nothing and waits, so that the server's sending stops once the
    /// socket is full. Where messages keep pouring in, it naps up to a millisecond first and so finds many at once.
    /// Failure: that of `take`, which ends the reading but not the connection; or the stream's, after which only
    /// close() is useful.
    Result<Taken> read(std::size_t byte_budget, Deadline deadline, const Take& take);

    /// Everything before `confirmed` was delivered. Sends that at once, without waiting; the server forgets the log
    /// before it and never sends it again. A position behind an earlier one changes nothing. Costs a system call: once
    /// per batch, not per event. Failure: the connection is lost.
    Result<void> status(Lsn confirmed);

    /// Sends the last status again, ends the stream and closes the connection; waits at most `at_most` for the server
    /// to take note. What was confirmed is certainly on its way only if it did.
    void close(Duration at_most);

private:
    ReplicationStream(store::postgres::PgConnection connection, const ReplicationSettings& settings,
                      const store::WaitLimit& limit, Waker& waker)
        : connection_(std::move(connection)), settings_(settings), limit_(limit), waker_(waker) {}

    Result<void> set_up(Deadline deadline);
    /// The first result of a command; a refusal is a result too.
    Result<client::PgResult> ask(const std::string& command, Deadline deadline);
    Result<client::PgResult> next_result(Deadline deadline);
    Error why_not_started(const PGresult* refusal, const std::string& slot, Deadline deadline);

    Result<void> keep_alive(bool listening);
    Result<void> send_status(bool reply_wanted);
    Result<void> flush();
    Result<void> drain(std::size_t byte_budget, const Take& take, Taken& taken);
    Result<void> hand_over(std::string_view bytes, const Take& take);
    /// Why the server sends nothing more.
    Failure ended();
    /// False when the deadline or the limit passed, or the waker was woken.
    bool wait(bool for_bytes, Deadline deadline);
    void nap();
    void count_wake_up(Deadline now);
    Failure lost(std::string_view why);

    store::postgres::PgConnection connection_;
    ReplicationSettings settings_;  // its spans as the server's wal_sender_timeout demands
    const store::WaitLimit& limit_;
    Waker& waker_;
    bool streaming_ = false;
    bool unsent_ = false;  // a part of a status waits in libpq's buffer
    Lsn received_ = 0;
    Lsn confirmed_ = 0;
    Deadline last_status_{};
    Deadline last_heard_{};
    std::optional<Deadline> asked_at_;  // for a sign of life, when none came since
    // How often the socket alone ended a wait within the last millisecond.
    Deadline busy_since_{};
    std::size_t wake_ups_ = 0;
    bool pouring_ = false;
    bool left_over_ = false;  // the last read() ended at its budget
};

}  // namespace deliverd::wal
