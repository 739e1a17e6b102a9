#include "store/postgres/connection/session_call.h"

#include "base/sha256.h"

namespace deliverd::store::postgres {
namespace {

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
        return connection_.run(Step{&statement, &params, Format::text}, Effect::read, connection_.statement_deadline());
    }

private:
    Connection& connection_;
};

}  // namespace

std::unique_ptr<client::PostgresCall> call_on(Connection& connection) {
    return std::make_unique<CallOnConnection>(connection);
}

}  // namespace deliverd::store::postgres
