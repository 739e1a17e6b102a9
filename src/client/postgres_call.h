// How code that speaks to PostgreSQL runs a protocol's statements, and names results and failures. Only for rooms that
// may include libpq.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "deliverd/lease.h"
#include "deliverd/outbox.h"
#include "deliverd/result.h"

namespace deliverd::client {

struct ClearResult {
    void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ClearResult>;

/// Whether repeating a statement whose answer was lost could do something twice.
enum class Effect { read, write };

/// One statement on some connection, parameters and answer in text format. nullopt is NULL.
class PostgresCall {
public:
    virtual ~PostgresCall() = default;
    virtual Result<PgResult> run(const char* sql, std::span<const std::optional<std::string>> values,
                                 Effect effect) = 0;
};

/// On the caller's own connection, blocking as that connection does; it outlives the answer.
[[nodiscard]] std::unique_ptr<PostgresCall> on_callers_connection(PGconn* connection);

/// The protocols over any way to run a statement.
[[nodiscard]] std::unique_ptr<Lease> lease_over(std::unique_ptr<PostgresCall> call);
[[nodiscard]] std::unique_ptr<Outbox> outbox_over(std::unique_ptr<PostgresCall> call);

/// The error for an SQLSTATE (empty: the connection was lost). `sent` says whether the server may have got
/// the whole statement; only then can a lost connection be ambiguous.
[[nodiscard]] Error postgres_error(std::string_view sqlstate, std::string_view message, Effect effect, bool sent);

/// SQLSTATE and primary message of a failed result.
[[nodiscard]] std::string_view sqlstate_of(const PGresult* result);
[[nodiscard]] std::string message_of(const PGresult* result);
/// libpq's messages span lines and end in one; ours do not.
[[nodiscard]] std::string trimmed_line(std::string_view text);

}  // namespace deliverd::client
