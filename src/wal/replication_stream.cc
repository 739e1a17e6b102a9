// Making a replication connection and starting its stream; reading it is in replication_read.cc.
#include "wal/replication_stream.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <charconv>

#include "base/assert.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/sql_text.h"
#include "wal/slot_name.h"
#include "wal/statements.h"

namespace deliverd::wal {
namespace {

using client::PgResult;
using store::quoted;

/// Of a result in text format; empty for NULL.
std::string_view field_at(const PGresult* result, int column) {
    if (PQntuples(result) < 1 || column >= PQnfields(result)) return {};
    return {PQgetvalue(result, 0, column), static_cast<std::size_t>(PQgetlength(result, 0, column))};
}

template <typename Integer>
Integer number_at(const PGresult* result, int column) {
    const std::string_view text = field_at(result, column);
    Integer number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

Error refused_by_server(const PGresult* result) {
    return client::postgres_error(client::sqlstate_of(result), client::message_of(result), client::Effect::read, true);
}

Error error_of(ErrorClass error_class, std::string_view code, std::string message) {
    return Error{error_class, std::string(code), std::move(message)};
}

Error replication_denied(std::string_view said) {
    return error_of(ErrorClass::permanent, kReplicationDenied,
                    fmt::format("PostgreSQL: {}; let a superuser run `alter role NAME replication` for this user, and "
                                "grant it connect on the database",
                                said));
}

/// The publications as pgoutput splits them: a list of quoted names, inside a literal.
std::string start_command(const StreamStart& start) {
    std::string names;
    for (const std::string& name : start.publications) names += (names.empty() ? "" : ",") + quoted(name);
    return fmt::format("START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {}{})",
                       quoted(start.slot), lsn_text(start.from), literal(names),
                       start.messages ? ", messages 'true'" : "");
}

}  // namespace

Result<std::unique_ptr<ReplicationStream>> ReplicationStream::open(const ReplicationSettings& settings,
                                                                   Deadline deadline, const store::WaitLimit& limit,
                                                                   Waker& waker) {
    auto connected = store::postgres::connect_to(settings.conninfo, {{"replication", "database"}}, deadline, limit);
    if (!connected) {
        const auto& [error, sqlstate] = connected.error();
        if (sqlstate == "42501") {
            return Failure(replication_denied("this user may not open a replication connection here"));
        }
        if (sqlstate == "53300") {
            return retryable(std::string(kTooManySenders),
                             "PostgreSQL: the server takes no more replication connections; raise its max_wal_senders, "
                             "or end other readers");
        }
        return Failure(error);
    }
    std::unique_ptr<ReplicationStream> stream(new ReplicationStream(std::move(*connected), settings, limit, waker));
    TRY(stream->set_up(deadline));
    return stream;
}

ReplicationStream::~ReplicationStream() = default;

Result<void> ReplicationStream::set_up(Deadline deadline) {
    TRY_ASSIGN(const PgResult result, ask(std::string(sql::set_up_stream), deadline));
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return Failure(refused_by_server(result.get()));
    const Duration timeout = std::chrono::milliseconds(number_at<std::int64_t>(result.get(), 5));
    if (timeout > Duration::zero()) {  // 0: the server never gives up
        settings_.status_interval = std::min(settings_.status_interval, timeout / 3);
        settings_.silence_limit = std::max(settings_.silence_limit, timeout);
    }
    return {};
}

Result<ServerIdentity> ReplicationStream::identify(Deadline deadline) {
    ASSERT(!streaming_);
    TRY_ASSIGN(const PgResult result, ask("IDENTIFY_SYSTEM", deadline));
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) return Failure(refused_by_server(result.get()));
    ServerIdentity identity;
    identity.system_identifier = field_at(result.get(), 0);
    identity.timeline = number_at<std::uint32_t>(result.get(), 1);
    identity.current = parse_lsn(field_at(result.get(), 2)).value_or(0);
    identity.database = field_at(result.get(), 3);
    return identity;
}

Result<void> ReplicationStream::start(const StreamStart& start, Deadline deadline) {
    ASSERT(!streaming_);
    TRY(check_slot_name(start.slot));
    if (start.publications.empty()) return bad_argument("a replication stream needs at least one publication");
    TRY_ASSIGN(const PgResult result, ask(start_command(start), deadline));
    if (PQresultStatus(result.get()) != PGRES_COPY_BOTH) {
        return Failure(why_not_started(result.get(), start.slot, deadline));
    }
    streaming_ = true;
    last_status_ = last_heard_ = std::chrono::steady_clock::now();
    return {};
}

// The server's messages may be in any language, and one SQLSTATE has several causes: so it is asked how things are.
Error ReplicationStream::why_not_started(const PGresult* refusal, const std::string& slot, Deadline deadline) {
    const std::string_view sqlstate = client::sqlstate_of(refusal);
    const std::string said = client::message_of(refusal);
    if (sqlstate == "42501") return replication_denied(said);
    if (sqlstate == "42704") {
        return error_of(
            ErrorClass::permanent, kSlotMissing,
            fmt::format("PostgreSQL: {}; the slot {} was dropped or never made: run `deliverd migrate`", said, slot));
    }
    if (sqlstate == "55006") {
        return error_of(
            ErrorClass::retryable, kSlotInUse,
            fmt::format("PostgreSQL: {}; another process reads the slot {}: waiting until it ends", said, slot));
    }
    Error otherwise = refused_by_server(refusal);
    if (otherwise.code == codes::kDbUnreachable) return otherwise;
    const auto state = ask(store::filled(sql::why_not_started, {{"slot", literal(slot)}}), deadline);
    if (!state || PQresultStatus(state->get()) != PGRES_TUPLES_OK) return otherwise;
    const std::string_view wal_level = field_at(state->get(), 0);
    const std::string_view here = field_at(state->get(), 1);
    const std::string_view plugin = field_at(state->get(), 2);
    const std::string_view database = field_at(state->get(), 3);
    const std::string_view wal_status = field_at(state->get(), 4);
    if (wal_level != "logical") {
        return error_of(
            ErrorClass::permanent, kWalLevelTooLow,
            fmt::format("PostgreSQL: {}; set wal_level = logical (it is {}) and restart the server", said, wal_level));
    }
    if (wal_status == "lost") {
        return error_of(ErrorClass::permanent, kSlotInvalidated,
                        fmt::format("PostgreSQL: {}; the server no longer keeps the log of the slot {}: drop it, make "
                                    "it again and catch up from the table",
                                    said, slot));
    }
    const bool is_there = !wal_status.empty();
    if (is_there && (plugin != "pgoutput" || database != here)) {
        return error_of(ErrorClass::permanent, kSlotForeign,
                        fmt::format("PostgreSQL: {}; the slot {} belongs to the database \"{}\" and the plugin \"{}\", "
                                    "not to {} and pgoutput: use another name for this lane's slot",
                                    said, slot, database, plugin, here));
    }
    return otherwise;
}

Result<PgResult> ReplicationStream::ask(const std::string& command, Deadline deadline) {
    PGconn* raw = connection_.get();
    if (PQsendQuery(raw, command.c_str()) != 1) return lost("a command could not be sent");
    for (int left = PQflush(raw); left != 0; left = PQflush(raw)) {
        if (left < 0) return lost("a command could not be sent");
        if (!store::postgres::wait_for_socket(raw, POLLOUT, deadline, limit_)) return lost("it does not answer");
    }
    TRY_ASSIGN(PgResult first, next_result(deadline));
    if (first == nullptr) return lost("it ended the session");
    if (PQresultStatus(first.get()) == PGRES_COPY_BOTH) return first;
    for (;;) {
        TRY_ASSIGN(const PgResult more, next_result(deadline));
        if (more == nullptr) return first;
    }
}

Result<PgResult> ReplicationStream::next_result(Deadline deadline) {
    PGconn* raw = connection_.get();
    while (PQisBusy(raw) != 0) {
        if (!store::postgres::wait_for_socket(raw, POLLIN, deadline, limit_)) {
            return retryable(
                codes::kDbTimeout,
                "PostgreSQL did not answer on the replication connection in time; it is closed, try again");
        }
        if (PQconsumeInput(raw) != 1) return lost("the server closed it");
    }
    return PgResult(PQgetResult(raw));
}

Failure ReplicationStream::lost(std::string_view why) {
    const std::string said = client::trimmed_line(PQerrorMessage(connection_.get()));
    return retryable(codes::kDbUnreachable,
                     fmt::format("PostgreSQL: the replication connection was lost: {}{}; connect "
                                 "again",
                                 why, said.empty() ? "" : " (" + said + ")"));
}

}  // namespace deliverd::wal
