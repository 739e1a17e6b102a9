#include "store/postgres/connection/connecting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "deliverd/error_codes.h"
#include "store/postgres/connection/refusal.h"

namespace deliverd::store::postgres {
namespace {

void drop_notice(void*, const PGresult*) {}

/// Any other encoding lacks characters that payloads, orders and answers may hold, and what a server cannot store is
/// refused for ever. No round trip: the server reports its encoding when the session starts.
Result<void> check_encoding(const PGconn* connection) {
    const char* encoding = PQparameterStatus(connection, "server_encoding");
    if (encoding == nullptr || std::string_view(encoding) == "UTF8") return {};
    return permanent(codes::kDbError, "PostgreSQL: the database " + std::string(PQdb(connection)) +
                                          " has the encoding " + encoding +
                                          " and cannot hold every text; deliverd needs UTF8: use another one, " +
                                          "made by `createdb --encoding=UTF8 --template=template0 NAME`");
}

tl::unexpected<ConnectFailure> unreachable(std::string message) {
    return tl::unexpected(
        ConnectFailure{Error{ErrorClass::retryable, codes::kDbUnreachable, std::move(message)}, std::string()});
}

}  // namespace

tl::expected<PgConnection, ConnectFailure> connect_to(
    const std::string& conninfo, std::initializer_list<std::pair<const char*, const char*>> settings, Deadline deadline,
    const WaitLimit& limit) {
    // The conninfo is expanded in place of dbname; what follows it overrides, except for the fallback.
    std::vector<const char*> names = {"dbname", "fallback_application_name", "client_encoding"};
    std::vector<const char*> values = {conninfo.c_str(), "deliverd", "UTF8"};
    for (const auto& [name, value] : settings) {
        names.push_back(name);
        values.push_back(value);
    }
    names.push_back(nullptr);
    values.push_back(nullptr);
    PgConnection connection(PQconnectStartParams(names.data(), values.data(), 1));
    PGconn* raw = connection.get();
    if (raw == nullptr) return unreachable("PostgreSQL: out of memory while connecting");
    PQsetNoticeReceiver(raw, drop_notice, nullptr);  // libpq would print them on standard error
    PQsetErrorVerbosity(raw, kConnectingVerbosity);
    // Step by step: PQconnectdb() has a timeout for each host only, and a stop could not end it.
    PostgresPollingStatusType state = PQstatus(raw) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
        const auto events = static_cast<short>(state == PGRES_POLLING_READING ? POLLIN : POLLOUT);
        if (!wait_for_socket(raw, events, deadline, limit)) {
            const char* host = PQhost(raw);
            return unreachable(std::string("PostgreSQL at ") + (host == nullptr ? "?" : host) +
                               " does not answer: check host, port and firewall");
        }
        state = PQconnectPoll(raw);
    }
    if (state == PGRES_POLLING_FAILED) {
        return tl::unexpected(ConnectFailure{refusal_of(raw), sqlstate_of_refusal(raw)});
    }
    PQsetErrorVerbosity(raw, PQERRORS_DEFAULT);
    PQsetnonblocking(raw, 1);
    if (auto checked = check_encoding(raw); !checked) {
        return tl::unexpected(ConnectFailure{std::move(checked.error()), std::string()});
    }
    return connection;
}

bool wait_for_socket(const PGconn* connection, short events, Deadline deadline, const WaitLimit& limit) {
    for (;;) {
        const auto left = limit.cap(deadline) - std::chrono::steady_clock::now();
        if (left <= left.zero()) return false;
        // Another thread may bring the limit forward at any time, and nothing wakes poll().
        const auto slice = std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(left, kWaitSlice));
        pollfd entry{PQsocket(connection), events, 0};
        const int ready = ::poll(&entry, 1, static_cast<int>(slice.count()));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return true;  // libpq will find the same fault and name it
    }
}

}  // namespace deliverd::store::postgres
