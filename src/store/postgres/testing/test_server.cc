#include "store/postgres/testing/test_server.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "client/postgres_call.h"
#include "store/migration_plan.h"

namespace deliverd::store::postgres {
namespace {

constexpr const char* kUrlVariable = "DELIVERD_TEST_POSTGRES_URL";

std::string server_url() {
    const char* url = std::getenv(kUrlVariable);
    if (url == nullptr || *url == '\0') {
        throw std::runtime_error(std::string(kUrlVariable) +
                                 " is not set: run ./dev test, or name a superuser's database on a server for tests");
    }
    return url;
}

/// The conninfo of another database on the same server.
std::string with_database(const std::string& url, const std::string& name) {
    PQconninfoOption* options = PQconninfoParse(url.c_str(), nullptr);
    if (options == nullptr) throw std::runtime_error(std::string(kUrlVariable) + " cannot be read");
    std::string conninfo = "dbname='" + name + "'";
    for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
        const std::string keyword = option->keyword;
        if (option->val == nullptr || keyword == "dbname") continue;
        conninfo += " " + keyword + "='";
        for (const char* c = option->val; *c != '\0'; ++c) {
            if (*c == '\'' || *c == '\\') conninfo += '\\';
            conninfo += *c;
        }
        conninfo += "'";
    }
    PQconninfoFree(options);
    return conninfo;
}

std::string fresh_name() {
    static std::atomic<int> count = 0;
    return "store_test_" + std::to_string(::getpid()) + "_" + std::to_string(++count);
}

/// The database that migrated ones are copies of, which takes a fifth of the time of migrating. Its name says what was
/// applied, so that a server that outlives these tests offers them no old one.
std::string migrated_template(PlainConnection& server) {
    std::string applied;
    for (const Migration& migration : postgres_migrations()) applied += migration.sql;
    const std::string name = "store_template_" + std::to_string(std::hash<std::string>{}(applied));
    const std::string missing = "select 1 where not exists (select from pg_database where datname = '" + name + "')";
    if (server.column(missing).empty()) return name;
    server.column("select pg_advisory_lock(1)");  // one of the tests that run side by side makes it
    if (server.column(missing).empty()) return name;
    const std::string unfinished = fresh_name();  // of which a killed test leaves no half under the other name
    server.column("create database " + unfinished);
    {
        NullLog log;
        PostgresOptions options;
        options.conninfo = with_database(server_url(), unfinished);
        conformance::must(conformance::must(open_postgres(options, log))->migrate(false));
    }
    server.column("alter database " + unfinished + " with allow_connections false");
    server.column("alter database " + unfinished + " rename to " + name);
    server.column("select pg_advisory_unlock(1)");
    return name;
}

}  // namespace

PlainConnection::PlainConnection(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {
    if (PQstatus(raw()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(raw()));
    PQsetNoticeReceiver(raw(), &PlainConnection::on_notice, this);
}

void PlainConnection::on_notice(void* self, const PGresult* result) {
    const char* message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    static_cast<PlainConnection*>(self)->messages_.emplace_back(message == nullptr ? "" : message);
}

std::vector<std::string> PlainConnection::column(const std::string& sql) {
    const client::PgResult result(PQexec(raw(), sql.c_str()));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(raw()));
    std::vector<std::string> values;
    for (int row = 0; row < PQntuples(result.get()); ++row) values.emplace_back(PQgetvalue(result.get(), row, 0));
    return values;
}

std::vector<std::string> PlainConnection::take_messages() {
    return std::exchange(messages_, {});
}

TestDatabase::TestDatabase(const std::string& clauses)
    : name_(fresh_name()), conninfo_(with_database(server_url(), name_)), server_(server_url()) {
    server_.column("create database " + name_ + " " + clauses);
}

TestDatabase::TestDatabase(Migrated /*tag*/)
    : name_(fresh_name()), conninfo_(with_database(server_url(), name_)), server_(server_url()) {
    server_.column("create database " + name_ + " template " + migrated_template(server_) + " strategy file_copy");
}

TestDatabase::~TestDatabase() {
    try {
        server_.column("drop database if exists " + name_ + " with (force)");
    } catch (const std::exception&) {  // the server is thrown away after the tests anyway
    }
}

PostgresOptions TestDatabase::options() const {
    PostgresOptions options;
    options.conninfo = conninfo_;
    return options;
}

PostgresTestStore::PostgresTestStore(bool migrated)
    : database_(migrated ? TestDatabase(TestDatabase::Migrated{}) : TestDatabase()),
      plain_(database_.conninfo()),
      store_(open_again()) {}

std::unique_ptr<Database> PostgresTestStore::open_again() {
    return conformance::must(open_postgres(database_.options(), log_));
}

std::unique_ptr<Lease> PostgresTestStore::client_lease() {
    if (!for_client_) for_client_.emplace(database_.conninfo());
    return lease_on(for_client_->raw());
}

std::string PostgresTestStore::value(const std::string& sql) {
    const auto values = plain_.column(sql);
    return values.empty() ? "" : values.front();
}

std::string PostgresTestStore::time_expression(int seconds) {
    return "(now() + interval '" + std::to_string(seconds) + " seconds')";
}

}  // namespace deliverd::store::postgres
