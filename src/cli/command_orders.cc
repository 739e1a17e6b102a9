#include <fmt/format.h>

#include <algorithm>

#include "base/json_reader.h"
#include "base/text.h"
#include "cli/command_input.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "daemon/parts.h"
#include "orders/order_json.h"
#include "orders/order_request.h"

namespace deliverd::cli {

namespace {

struct OrdersArguments {
    std::string file;
    std::string key;
    std::optional<std::string> status;
    std::int32_t limit = 100;
};

/// The key in the body: no header repeats it on the command line. read_order() refuses a body without one, whatever
/// this function returns then.
std::string own_key(std::string_view body) {
    const auto members = json_members(body);
    if (!members) return "none";
    for (const JsonMember& member : *members) {
        if (member.key != "idempotency_key") continue;
        const auto key = json_string(member.value);
        if (key && !key->empty()) return *key;
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
    OrdersCommand(const Call& call, const OrdersArguments& arguments, store::Orders& orders)
        : context_(call.context), arguments_(arguments), json_(call.json), orders_(orders) {}

    int submit(const std::string& body) {
        SystemRandom random;
        const orders::Reading reading = orders::read_order(own_key(body), body, SystemClock().wall_now(), random);
        if (!reading.order) return complain(context_, kFailed, describe(reading.refusal));
        const orders::OrderRequest& order = *reading.order;
        const store::NewOrder fresh{order.idempotency_key, order.json, order.digest, order.trace_id,
                                    daemon::cli_actor()};
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

int with_orders(const Call& call, const OrdersArguments& arguments, MissingFile missing,
                const std::function<int(OrdersCommand&)>& work) {
    return with_database(call, missing, [&](store::Database& database, Log&) {
        const auto orders = database.orders(call.config().orders);
        OrdersCommand command(call, arguments, *orders);
        return work(command);
    });
}

}  // namespace

void add_orders(CommandTree& tree) {
    constexpr const char* kAlwaysJson = "accepted; the answer is JSON anyway";
    const auto orders = std::make_shared<OrdersArguments>();
    CLI::App* group = tree.group("orders", "Use the order outbox from the shell",
                                 "Examples:\n  deliverd orders submit --file order.json\n"
                                 "  deliverd orders show order-2026-0001\n  deliverd orders list --status dead");

    CLI::App* app =
        tree.add(group,
                 {"submit", "Store an order, as POST /api/v1/orders does",
                  "  deliverd orders submit --file order.json\n  make-order | deliverd orders submit --file -\n"
                  "The same order twice is stored once; prints the answer as JSON.",
                  kAlwaysJson},
                 [orders](const Call& call) {
                     const auto body = read_input(call.context, "--file", orders->file,
                                                  static_cast<std::int64_t>(call.config().server.max_body_bytes),
                                                  "server.max_body_bytes");
                     if (!body) return complain(call.context, body.error());
                     return with_orders(call, *orders, MissingFile::create,
                                        [&](OrdersCommand& command) { return command.submit(*body); });
                 });
    app->add_option("--file", orders->file, "the order as JSON; - is standard input")->required()->type_name("FILE");

    const auto add = [&](const CommandTree::Help& help, int (OrdersCommand::*method)()) {
        return tree.add(group, help, [orders, method](const Call& call) {
            return with_orders(call, *orders, MissingFile::refuse,
                               [method](OrdersCommand& command) { return (command.*method)(); });
        });
    };
    app = add(
        {"show", "Show one order with its audit trail, as JSON", "  deliverd orders show order-2026-0001", kAlwaysJson},
        &OrdersCommand::show);
    app->add_option("key", orders->key, "its idempotency_key")->required()->type_name("KEY");

    app =
        add({"list", "List orders, newest first",
             "  deliverd orders list --status dead\n  deliverd orders list --limit 1000 --json", "an array of objects"},
            &OrdersCommand::list);
    app->add_option("--status", orders->status, "only these")
        ->check(CLI::IsMember({"queued", "sending", "sent", "failed", "dead"}))
        ->type_name("STATUS");
    whole(app, "--limit", orders->limit, 1, 1'000'000, "orders at most")->default_str(std::to_string(orders->limit));
}

}  // namespace deliverd::cli
