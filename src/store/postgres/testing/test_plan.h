// Reading the plans PostgreSQL really ran. Only tests include this.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "store/postgres/connection/connection.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {

namespace json = boost::json;

inline std::string text_of(const json::object& node, std::string_view name) {
    const json::value* value = node.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

inline std::int64_t number_of(const json::object& node, std::string_view name) {
    const json::value* value = node.if_contains(name);
    return value == nullptr ? 0 : value->to_number<std::int64_t>();
}

/// Pages of tables and indexes that the node and those below it looked at.
inline std::int64_t pages_of(const json::object& node) {
    return number_of(node, "Shared Hit Blocks") + number_of(node, "Shared Read Blocks");
}

inline void walk(const json::object& node, const std::function<void(const json::object&)>& visit) {
    visit(node);
    const json::value* below = node.if_contains("Plans");
    if (below == nullptr) return;
    for (const json::value& child : below->as_array()) walk(child.as_object(), visit);
}

/// The plan of the statement with `mark` in its text that the call of a SQL function runs, as auto_explain saw it.
/// Rolled back.
inline json::object plan_inside(const std::string& conninfo, const std::string& call, const std::string& mark) {
    PlainConnection connection(conninfo);
    connection.column(
        "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on;"
        " set auto_explain.log_buffers = on; set auto_explain.log_nested_statements = on;"
        " set auto_explain.log_format = json; set client_min_messages = log; begin");
    connection.column(call);
    connection.column("rollback");
    for (const std::string& message : connection.take_messages()) {
        const std::size_t start = message.find('{');
        if (message.find(mark) == std::string::npos || start == std::string::npos) continue;
        return json::parse(message.substr(start)).as_object().at("Plan").as_object();
    }
    ADD_FAILURE() << "auto_explain did not show the function's statement";
    return {};
}

/// The plan of one of the store's own statements on a connection set up as the store's are. Rolled back.
inline json::object plan_of(const std::string& conninfo, const Statement& statement, const Params& params) {
    const SessionSettings settings{std::chrono::seconds(30), std::chrono::seconds(5), std::chrono::seconds(30)};
    const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const WaitLimit limit;
    auto connection = conformance::must(Connection::open(conninfo, settings, deadline, limit));
    const Statement explain{"explain", "explain (analyze, buffers, format json) " + statement.sql};
    conformance::must(connection->script("begin", Effect::read, deadline));
    auto result = conformance::must(connection->run(Step{&explain, params, Format::text}, Effect::read, deadline));
    conformance::must(connection->script("rollback", Effect::read, deadline));
    return json::parse(PQgetvalue(result.get(), 0, 0)).as_array().at(0).as_object().at("Plan").as_object();
}

}  // namespace deliverd::store::postgres
