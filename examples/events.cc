// An order and its event in one transaction, on a connection of your own (libpq or SQLite): both are stored, or
// neither.
//
//     DATABASE_URL=postgres://user@host/database example_events [--fail]          (or sqlite:FILE)
//
// First run `deliverd migrate`, and create the shop's own table:
//     create table shop_orders (id serial primary key, total int not null);       (SQLite: id integer primary key)
// With --fail the program fails after both writes, and the rollback undoes them.

#include <libpq-fe.h>
#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "deliverd/outbox.h"

namespace {

/// Returns the first value, or "" if there is none.
std::string run(PGconn* connection, const char* sql) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection, sql), PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(PQerrorMessage(connection));
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

std::string run(sqlite3* connection, const char* sql) {
    std::string first;
    const auto keep = [](void* to, int, char** values, char**) {
        *static_cast<std::string*>(to) = values[0];
        return 0;
    };
    if (sqlite3_exec(connection, sql, keep, &first, nullptr) != SQLITE_OK) {
        throw std::runtime_error(sqlite3_errmsg(connection));
    }
    return first;
}

template <typename Connection>
void create_order(Connection* connection, bool fail) {
    run(connection, "begin");
    const std::string order = run(connection, "insert into shop_orders (total) values (42) returning id");
    const std::string aggregate = "order-" + order;
    const std::string payload = R"({"order_id": )" + order + R"(, "total": 42})";
    const auto event = deliverd::outbox_on(connection)
                           ->add({.aggregate_id = aggregate,
                                  .event_type = "OrderCreated",
                                  .payload = payload,
                                  .metadata = R"({"tenant": "acme"})"});
    if (!event) throw std::runtime_error(event.error().message);
    if (fail) throw std::runtime_error("the card was refused");
    run(connection, "commit");
    std::printf("order %s, event %lld\n", order.c_str(), static_cast<long long>(*event));
}

}  // namespace

int main(int argc, char** argv) try {
    const char* variable = std::getenv("DATABASE_URL");
    const std::string url = variable != nullptr ? variable : "";
    const bool fail = argc > 1 && std::string_view(argv[1]) == "--fail";
    // Closing a connection rolls back what was not committed.
    if (url.starts_with("sqlite:")) {
        sqlite3* opened = nullptr;
        sqlite3_open(url.c_str() + std::string_view("sqlite:").size(), &opened);
        create_order(std::unique_ptr<sqlite3, decltype(&sqlite3_close)>(opened, sqlite3_close).get(), fail);
    } else {
        create_order(std::unique_ptr<PGconn, decltype(&PQfinish)>(PQconnectdb(url.c_str()), PQfinish).get(), fail);
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
