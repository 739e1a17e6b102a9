#include "client/postgres_call.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace deliverd::client {
namespace {

bool one_of(std::string_view sqlstate, std::initializer_list<std::string_view> states) {
    return std::ranges::find(states, sqlstate) != states.end();
}

/// 57P01 to 57P03: the server is shutting down, crashed, or is not ready yet. None says whether a commit was reached.
bool lost_connection(std::string_view sqlstate) {
    return sqlstate.empty() || sqlstate.starts_with("08") || one_of(sqlstate, {"57P01", "57P02", "57P03"});
}

class CallersConnection final : public PostgresCall {
public:
    explicit CallersConnection(PGconn* connection) : connection_(connection) {}

    Result<PgResult> run(const char* sql, std::span<const std::optional<std::string>> values, Effect effect) override {
        std::vector<const char*> pointers;
        pointers.reserve(values.size());
        for (const auto& value : values) pointers.push_back(value ? value->c_str() : nullptr);
        PgResult result(PQexecParams(connection_, sql, static_cast<int>(values.size()), nullptr, pointers.data(),
                                     nullptr, nullptr, 0));
        const ExecStatusType status = PQresultStatus(result.get());
        if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return result;
        if (result == nullptr) {  // libpq had no memory, or nothing could be sent
            return Failure(postgres_error("", PQerrorMessage(connection_), effect, true));
        }
        return Failure(postgres_error(sqlstate_of(result.get()), message_of(result.get()), effect, true));
    }

private:
    PGconn* connection_;
};

}  // namespace

std::unique_ptr<PostgresCall> on_callers_connection(PGconn* connection) {
    return std::make_unique<CallersConnection>(connection);
}

Error postgres_error(std::string_view sqlstate, std::string_view message, Effect effect, bool sent) {
    const std::string said = "PostgreSQL: " + trimmed_line(message);
    if (lost_connection(sqlstate)) {
        const bool unknown = sent && effect == Effect::write;
        return Error{unknown ? ErrorClass::ambiguous : ErrorClass::retryable, codes::kDbUnreachable, said};
    }
    // Cancelled, lock not to be had, gave way in a deadlock, thrown out while idle: certainly rolled back.
    if (one_of(sqlstate, {"57014", "55P03", "40P01", "25P03"}))
        return Error{ErrorClass::retryable, codes::kDbTimeout, said};
    // Refused by a function of ours, not text of the encoding, text that is no JSON, too long, a number too large.
    if (one_of(sqlstate, {"22023", "22021", "22P05", "22P02", "22001", "22003"})) {
        return Error{ErrorClass::permanent, codes::kBadArgument, trimmed_line(message)};
    }
    if (one_of(sqlstate, {"42P01", "42883", "3F000", "42703"})) {
        return Error{ErrorClass::permanent, codes::kDbError,
                     said + ": the schema is missing or old, run `deliverd migrate`"};
    }
    if (sqlstate == "42501") {
        return Error{ErrorClass::permanent, codes::kDbError,
                     said + ": grant the database user what `deliverd doctor` lists"};
    }
    // Wrong data, wrong names, too large or too deep, no such user or database: the same call fails the same way again.
    const bool permanent = one_of(sqlstate.substr(0, 2), {"22", "23", "28", "3D", "42", "54", "0L"});
    return Error{permanent ? ErrorClass::permanent : ErrorClass::retryable, codes::kDbError,
                 said + " (SQLSTATE " + std::string(sqlstate) + ")"};
}

std::string_view sqlstate_of(const PGresult* result) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state == nullptr ? std::string_view() : std::string_view(state);
}

std::string message_of(const PGresult* result) {
    const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return trimmed_line(primary == nullptr ? PQresultErrorMessage(result) : primary);
}

std::string trimmed_line(std::string_view text) {
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    return one_line(text);
}

}  // namespace deliverd::client
