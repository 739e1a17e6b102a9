#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "app/command.h"
#include "app/command_input.h"
#include "app/parts.h"
#include "base/canonical_json.h"
#include "base/text.h"
#include "orders/order_json.h"
#include "orders/order_request.h"

namespace deliverd::app {

namespace {

Failure unreadable(const std::string& name, const std::string& why) {
    return permanent("bad_argument", fmt::format("--file {}: {}", name, why));
}

Result<std::string> order_text(const Context& context, const std::string& name, std::int64_t most) {
    errno = 0;
    std::ifstream file;
    if (name != "-") {
        file.open(name, std::ios::binary);
        if (!file) return unreadable(name, std::strerror(errno));
    }
    std::istream& from = name == "-" ? context.in : file;
    errno = 0;
    std::string text = read_bounded(from, most);
    if (from.bad()) return unreadable(name, errno == 0 ? "it cannot be read" : std::strerror(errno));
    if (static_cast<std::int64_t>(text.size()) > most) {
        return unreadable(name,
                          fmt::format("longer than the {} bytes an order may have (server.max_body_bytes)", most));
    }
    return text;
}

/// On the command line no header repeats the key, so that it only has to be the body's own. A body without one is
/// refused by the reader, whatever stands in for the header.
std::string own_key(std::string_view body) {
    const auto members = json_members(body);
    if (!members) return "none";
    for (const JsonMember& member : *members) {
        if (member.key != "idempotency_key" || !member.canonical.starts_with('"')) continue;
        std::string key(boost::json::parse(member.canonical).as_string());
        return key.empty() ? "none" : key;
    }
    return "none";
}

std::string describe(const orders::Refusal& refusal) {
    std::string line = fmt::format("{}: {}", refusal.code, refusal.message);
    for (const orders::FieldProblem& problem : refusal.details) {
        line += fmt::format("; {}: {}", problem.field, problem.message);
    }
    return line;
}

class OrdersCommand {
public:
    OrdersCommand(const Context& context, const Arguments& arguments, store::Orders& orders)
        : context_(context), arguments_(arguments.orders), json_(arguments.json), orders_(orders) {}

    int submit(const std::string& body) {
        SystemRandom random;
        const orders::Reading reading = orders::read_order(own_key(body), body, SystemClock().wall_now(), random);
        if (!reading.order) return complain(context_, kFailed, describe(reading.refusal));
        const orders::OrderRequest& order = *reading.order;
        const store::NewOrder fresh{order.idempotency_key, order.json, order.digest, order.trace_id, cli_actor()};
        const auto answers = orders_.accept({&fresh, 1});
        if (!answers) return complain(context_, answers.error());
        const store::AcceptAnswer& answer = answers->front();
        if (answer.kind == store::AcceptKind::conflict) {
            return complain(context_, kFailed,
                            fmt::format("IDEMPOTENCY_CONFLICT: order {} was stored with another content (digest {}); "
                                        "a different order needs a key of its own",
                                        order.idempotency_key, answer.order.request_digest));
        }
        context_.out << orders::acceptance_json(answer) << "\n";
        return kDone;
    }

    int show() {
        const auto found = orders_.find(arguments_.key);
        if (!found) return complain(context_, found.error());
        if (!*found) return complain(context_, kFailed, fmt::format("no order has the key \"{}\"", arguments_.key));
        context_.out << orders::detail_json(**found) << "\n";
        return kDone;
    }

    int list() {
        store::OrderQuery query;
        query.status = arguments_.status;
        query.limit = arguments_.limit;
        const auto rows = orders_.list(query);
        if (!rows) return complain(context_, rows.error());
        if (json_) {
            print_json(*rows);
        } else {
            print_table(*rows);
        }
        return kDone;
    }

private:
    void print_json(const std::vector<store::Order>& rows) {
        context_.out << "[";
        for (std::size_t i = 0; i < rows.size(); ++i) {
            context_.out << (i == 0 ? "" : ",\n ") << orders::row_json(rows[i]);
        }
        context_.out << "]\n";
    }

    void print_table(const std::vector<store::Order>& rows) {
        if (rows.empty()) {
            context_.out << "no orders\n";
            return;
        }
        std::size_t key_width = std::string_view("idempotency_key").size();
        for (const store::Order& row : rows) key_width = std::max(key_width, row.idempotency_key.size());
        context_.out << fmt::format("{:>10}  {:<{}}  {:<8}{:>7}  {:<24}  {}\n", "id", "idempotency_key", key_width,
                                    "status", "retries", "created_at", "last_error");
        for (const store::Order& row : rows) {
            context_.out << fmt::format("{:>10}  {:<{}}  {:<8}{:>7}  {:<24}  {}\n", row.id, row.idempotency_key,
                                        key_width, row.status, row.retry_count, rfc3339_millis(row.created_at),
                                        row.last_error.value_or("") + (row.in_doubt ? " (in doubt)" : ""));
        }
    }

    const Context& context_;
    const OrdersArguments& arguments_;
    const bool json_;
    store::Orders& orders_;
};

}  // namespace

int run_orders(const Context& context, const Config& config, const Arguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    std::string body;
    if (arguments.action == Action::orders_submit) {
        auto text = order_text(context, arguments.orders.file, static_cast<std::int64_t>(config.server.max_body_bytes));
        if (!text) return complain(context, text.error());
        body = std::move(*text);
    } else if (const auto there = require_existing(config.database); !there) {
        return complain(context, there.error());
    }
    auto database = open_ready_database(config.database, *log);
    if (!database) return complain(context, database.error());
    const auto orders = (*database)->orders(config.orders);
    OrdersCommand command(context, arguments, *orders);
    if (arguments.action == Action::orders_submit) return command.submit(body);
    return arguments.action == Action::orders_show ? command.show() : command.list();
}

}  // namespace deliverd::app
