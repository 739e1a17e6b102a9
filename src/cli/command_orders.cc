#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "base/try.h"
#include "cli/command_input.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/listing.h"
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

/// What an orders command works with.
struct OrdersJob {
    const Call& call;
    const OrdersArguments& asked;
    store::Orders& orders;
};

Status submit(const OrdersJob& job, const std::string& body) {
    SystemRandom random;
    const orders::Reading reading = orders::read_order(own_key(body), body, SystemClock().wall_now(), random);
    if (!reading.order) return failed("{}", describe(reading.refusal));
    const orders::OrderRequest& order = *reading.order;
    const store::NewOrder fresh{order.idempotency_key, order.json, order.digest, order.trace_id, daemon::cli_actor()};
    TRY_ASSIGN(const auto answers, job.orders.accept({&fresh, 1}));
    const store::AcceptAnswer& answer = answers.front();
    if (answer.kind == store::AcceptKind::conflict) {
        return failed(
            "IDEMPOTENCY_CONFLICT: order {} was stored with another content (digest {}); a different order needs a "
            "key of its own",
            order.idempotency_key, answer.order.request_digest);
    }
    return job.call.print_line(orders::acceptance_json(answer));
}

Status show(const OrdersJob& job) {
    TRY_ASSIGN(const auto found, job.orders.find(job.asked.key));
    if (!found) return failed("no order has the key \"{}\"", job.asked.key);
    return job.call.print_line(orders::detail_json(*found));
}

Status list(const OrdersJob& job) {
    store::OrderQuery query;
    query.status = job.asked.status;
    query.limit = job.asked.limit;
    TRY_ASSIGN(const auto rows, job.orders.list(query));
    const std::string_view key = "idempotency_key";
    Listing listing(job.call,
                    fmt::format("{{:>10}}  {{:<{}}}  {{:<8}}{{:>7}}  {{:<24}}  {{}}",
                                widest(rows, &store::Order::idempotency_key, key)),
                    "id", key, "status", "retries", "created_at", "last_error");
    for (const store::Order& row : rows) {
        if (job.call.json) {
            listing.json(orders::row_json(row));
            continue;
        }
        listing.row(row.id, row.idempotency_key, row.status, row.retry_count, rfc3339_millis(row.created_at),
                    row.last_error.value_or("") + (row.in_doubt ? " (in doubt)" : ""));
    }
    return listing.end("no orders");
}

Status with_orders(const Call& call, const OrdersArguments& asked, MissingFile missing,
                   const std::function<Status(const OrdersJob&)>& work) {
    return with_database(call, missing, [&](store::Database& database, Log&) {
        const auto orders = database.orders(call.config().orders);
        return work({call, asked, *orders});
    });
}

}  // namespace

void add_orders(CommandTree& tree) {
    const auto orders = std::make_shared<OrdersArguments>();
    CLI::App* group = tree.group("orders", "Use the order outbox from the shell",
                                 "Examples:\n  deliverd orders submit --file order.json\n"
                                 "  deliverd orders show order-2026-0001\n  deliverd orders list --status dead");

    // The order is read before the database is opened: a file that is not there must not create one.
    const auto submit_file = [orders](const Call& call) -> Status {
        TRY_ASSIGN(const auto body,
                   read_input(call.context, "--file", orders->file,
                              static_cast<std::int64_t>(call.config().server.max_body_bytes), "server.max_body_bytes"));
        return with_orders(call, *orders, MissingFile::create, [&](const OrdersJob& job) { return submit(job, body); });
    };
    CLI::App* app = tree.add(group,
                             {"submit", "Store an order, as POST /api/v1/orders does",
                              "  deliverd orders submit --file order.json\n"
                              "  make-order | deliverd orders submit --file -\n"
                              "The same order twice is stored once; prints the answer as JSON.",
                              kAlwaysJson},
                             submit_file);
    app->add_option("--file", orders->file, "the order as JSON; - is standard input")->required()->type_name("FILE");

    const auto add = [&](const CommandTree::Help& help, Status (*work)(const OrdersJob&)) {
        return tree.add(group, help, [orders, work](const Call& call) {
            return with_orders(call, *orders, MissingFile::refuse, work);
        });
    };
    app = add(
        {"show", "Show one order with its audit trail, as JSON", "  deliverd orders show order-2026-0001", kAlwaysJson},
        show);
    app->add_option("key", orders->key, "its idempotency_key")->required()->type_name("KEY");

    app =
        add({"list", "List orders, newest first",
             "  deliverd orders list --status dead\n  deliverd orders list --limit 1000 --json", "an array of objects"},
            list);
    app->add_option("--status", orders->status, "only these")
        ->check(CLI::IsMember({"queued", "sending", "sent", "failed", "dead"}))
        ->type_name("STATUS");
    whole(app, "--limit", orders->limit, 1, 1'000'000, "orders at most");
}

}  // namespace deliverd::cli
