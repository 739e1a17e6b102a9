#include "store/postgres/connection/connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"
#include "base/sha256.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/statements.h"

namespace deliverd::store::postgres {
namespace {

using client::postgres_error;

std::string milliseconds(Duration span) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(span).count()) + "ms";
}

/// Errors after which the session is no longer what we believe it is: statements that vanished or whose plan went
/// stale, a server that became read-only, a connection that was terminated.
bool ends_session(std::string_view sqlstate) {
    constexpr std::array<std::string_view, 4> kStates = {"26000", "0A000", "25006", "25P03"};
    return sqlstate.empty() || sqlstate.starts_with("08") || sqlstate.starts_with("57P") ||
           std::ranges::find(kStates, sqlstate) != kStates.end();
}

bool is_success(ExecStatusType status) {
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/// Not even sent: a statement whose answer is not awaited would leave its outcome unknown.
Error too_late() {
    return Error{ErrorClass::retryable, codes::kDbTimeout, "no statement was sent to PostgreSQL: deliverd is stopping"};
}

class CallOnConnection final : public client::PostgresCall {
public:
    explicit CallOnConnection(Connection& connection) : connection_(connection) {}

    Result<PgResult> run(const char* sql, std::span<const std::optional<std::string>> values, Effect) override {
        Params params;
        for (const auto& value : values) params.literal(value);
        // Prepared under a name made from its text, so that the next session on this connection finds it prepared. The
        // server keeps 63 bytes of a name.
        const Statement statement{"client_" + sha256_hex(sql).substr(0, 32), sql};
        // Text, as a caller's connection answers: the client library reads both alike.
        return connection_.run(Step{&statement, std::move(params), Format::text}, Effect::read);
    }

private:
    Connection& connection_;
};

}  // namespace

Result<std::unique_ptr<Connection>> Connection::open(const std::string& conninfo, const SessionSettings& settings,
                                                     Deadline deadline, const WaitLimit& limit) {
    auto connected = connect_to(conninfo, {}, deadline, limit);
    if (!connected) return Failure(std::move(connected).error().error);
    // A batch is larger than a socket's buffer: sending it must not block for as long as the server does not read. In
    // pipeline mode all its statements go out before the first answer is read: one round trip.
    if (PQenterPipelineMode(connected->get()) != 1) {
        return retryable(codes::kDbUnreachable, "PostgreSQL: no pipeline mode");
    }
    std::unique_ptr<Connection> connection(new Connection(std::move(*connected), settings, limit));
    TRY(connection->set_up_session(deadline));
    return connection;
}

Result<void> Connection::set_up_session(Deadline deadline) {
    static const Statement kSetUp{"connection_set_up_session", connection::sql::set_up_session};
    Params params(milliseconds(settings_.statement_timeout), milliseconds(settings_.lock_timeout),
                  milliseconds(settings_.idle_in_transaction_timeout));
    TRY(run(Step{&kSetUp, std::move(params)}, Effect::read, deadline));
    return {};
}

Deadline Connection::statement_deadline() const {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<Deadline::duration>(settings_.statement_timeout + kAnswerGrace);
}

bool Connection::wait(short events, Deadline deadline) const {
    return wait_for_socket(connection_.get(), events, deadline, limit_);
}

bool Connection::quiet() const {
    pollfd entry{PQsocket(connection_.get()), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 0;
}

bool Connection::in_transaction() const {
    const PGTransactionStatusType status = PQtransactionStatus(connection_.get());
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

Error Connection::lost(Effect effect, bool sent) {
    broken_ = true;
    return postgres_error("", PQerrorMessage(connection_.get()), effect, sent);
}

// The answer may still come, and the next user of the connection would take it for its own.
Error Connection::timed_out(Effect effect, bool sent) {
    broken_ = true;
    const bool unknown = sent && effect == Effect::write;
    return Error{unknown ? ErrorClass::ambiguous : ErrorClass::retryable, codes::kDbTimeout,
                 "PostgreSQL did not answer in time; the connection was closed, try again"};
}

Result<PgResult> Connection::run(const Step& step, Effect effect, std::optional<Deadline> deadline) {
    TRY_ASSIGN(auto results, run(std::span(&step, 1), effect, deadline));
    return std::move(results.back());
}

Result<std::vector<PgResult>> Connection::run(std::span<const Step> steps, Effect effect,
                                              std::optional<Deadline> deadline) {
    ASSERT(!steps.empty());
    const Deadline until = deadline.value_or(statement_deadline());
    refused_with_.clear();
    if (limit_.passed()) return Failure(too_late());
    std::vector<const Statement*> expected;
    if (!queue(steps, expected)) return Failure(lost(effect, false));
    TRY(flush(effect, until));
    for (const Step& step : steps) {
        if (step.point != nullptr) failpoint(step.point);
    }
    return collect(std::move(expected), effect, until);
}

/// `preparing` gets one entry per command in the pipeline: the statement being prepared, or null for an execution.
bool Connection::queue(std::span<const Step> steps, std::vector<const Statement*>& preparing) {
    PGconn* raw = connection_.get();
    for (const Step& step : steps) {
        const Statement& statement = *step.statement;
        // Prepared in the same round trip. What was prepared stays, also where a later step fails and rolls back.
        const bool known = prepared_.contains(statement.name) ||
                           std::find(preparing.begin(), preparing.end(), &statement) != preparing.end();
        if (!known) {
            if (PQsendPrepare(raw, statement.name.c_str(), statement.sql.c_str(), 0, nullptr) != 1) return false;
            preparing.push_back(&statement);
        }
        const auto pointers = step.params.pointers();
        const auto lengths = step.params.lengths();
        const auto formats = step.params.formats();
        if (PQsendQueryPrepared(raw, statement.name.c_str(), step.params.count(), pointers.data(), lengths.data(),
                                formats.data(), static_cast<int>(step.format)) != 1) {
            return false;
        }
        preparing.push_back(nullptr);
    }
    return PQpipelineSync(raw) == 1;
}

/// The pipeline's Sync is the last thing sent, and nothing is committed before the server has it: until the
/// flush is complete a failure is certainly harmless.
Result<void> Connection::flush(Effect effect, Deadline deadline) {
    for (;;) {
        const int left = PQflush(connection_.get());
        if (left == 0) return {};
        if (left < 0) return Failure(lost(effect, false));
        // Reading too: a server that cannot send its answers stops reading, and both sides would wait for ever.
        if (!wait(POLLIN | POLLOUT, deadline)) return Failure(timed_out(effect, false));
        if (PQconsumeInput(connection_.get()) != 1) return Failure(lost(effect, false));
    }
}

Result<PgResult> Connection::next_result(Effect effect, Deadline deadline) {
    PGconn* raw = connection_.get();
    while (PQisBusy(raw) != 0) {
        if (!wait(POLLIN, deadline)) return Failure(timed_out(effect, true));
        if (PQconsumeInput(raw) != 1) return Failure(lost(effect, true));
    }
    return PgResult(PQgetResult(raw));
}

Result<std::vector<PgResult>> Connection::collect(std::vector<const Statement*> preparing, Effect effect,
                                                  Deadline deadline) {
    std::vector<PgResult> results;
    std::optional<ServerError> failed;
    for (std::size_t command = 0;;) {
        auto next = next_result(effect, deadline);
        if (!next) {
            // The server's own last words, where it had time for them, say more than "connection lost".
            if (failed) return refused(*failed, effect);
            return Failure(std::move(next.error()));
        }
        const PGresult* result = next->get();
        if (result == nullptr) {  // between two commands
            if (PQstatus(connection_.get()) == CONNECTION_BAD) return Failure(lost(effect, true));
            continue;
        }
        const ExecStatusType status = PQresultStatus(result);
        if (status == PGRES_PIPELINE_SYNC) break;
        if (is_success(status)) {
            const Statement* statement = command < preparing.size() ? preparing[command] : nullptr;
            if (statement != nullptr) {
                prepared_.insert(statement->name);
            } else {
                results.push_back(std::move(*next));
            }
        } else if (status != PGRES_PIPELINE_ABORTED && !failed) {  // aborted: an earlier step has failed
            failed = error_in(result);
        }
        ++command;
        if (PQstatus(connection_.get()) == CONNECTION_BAD) break;
    }
    if (PQstatus(connection_.get()) == CONNECTION_BAD) broken_ = true;
    if (failed) return refused(*failed, effect);
    if (broken_) return Failure(lost(effect, true));  // also a Sync that was never answered: it may have committed
    return results;
}

Failure Connection::refused(const ServerError& error, Effect effect) {
    refused_with_ = error.sqlstate;
    if (ends_session(error.sqlstate)) broken_ = true;
    return Failure(postgres_error(error.sqlstate, error.message, effect, true));
}

Result<void> Connection::script(const std::string& sql, Effect effect, std::optional<Deadline> deadline) {
    const Deadline until = deadline.value_or(statement_deadline());
    if (limit_.passed()) return Failure(too_late());
    PGconn* raw = connection_.get();
    // A pipeline takes one statement per command; several in one text need the simple protocol.
    if (PQexitPipelineMode(raw) != 1 || PQsendQuery(raw, sql.c_str()) != 1) return Failure(lost(effect, false));
    TRY(flush(effect, until));
    std::optional<ServerError> failed;
    for (;;) {
        TRY_ASSIGN(const auto next, next_result(effect, until));
        if (next == nullptr) break;
        if (!is_success(PQresultStatus(next.get())) && !failed) failed = error_in(next.get());
    }
    if (PQstatus(raw) == CONNECTION_BAD || PQenterPipelineMode(raw) != 1) broken_ = true;
    if (failed) return refused(*failed, effect);
    return {};
}

Result<bool> Connection::wait_for_notification(Deadline deadline) {
    struct Free {
        void operator()(PGnotify* notification) const { PQfreemem(notification); }
    };
    for (;;) {
        // All of them: each says only that there is something new, and the next look finds everything.
        bool heard = false;
        while (std::unique_ptr<PGnotify, Free>(PQnotifies(connection_.get())) != nullptr) heard = true;
        if (heard) return true;
        if (!wait(POLLIN, deadline)) return false;
        if (PQconsumeInput(connection_.get()) != 1) return Failure(lost(Effect::read, true));
    }
}

std::unique_ptr<client::PostgresCall> call_on(Connection& connection) {
    return std::make_unique<CallOnConnection>(connection);
}

}  // namespace deliverd::store::postgres
