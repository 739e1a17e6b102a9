#include "base/json_reader.h"
#include "base/text.h"
#include "cli/command_tree.h"
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
    for (const JsonMember& member : json_members(body).value_or(std::vector<JsonMember>())) {
        if (member.key != "idempotency_key") continue;
        if (auto key = json_string(member.value); key && !key->empty()) return std::move(*key);
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

using OrdersJob = Job<OrdersArguments, store::Orders>;

Result<std::string> read_body(const Call& call, const OrdersArguments& asked) {
    const auto most = static_cast<std::int64_t>(call.config().server.max_body_bytes);
    return read_input(call.context, "--file ", asked.file, {most, "server.max_body_bytes"});
}

Status submit(const OrdersJob& job) {
    SystemRandom random;
    // As the API reads it, so that both refuse the same orders and compute the same digest.
    const orders::Reading reading = orders::read_order(own_key(job.input), job.input, SystemClock().wall_now(), random);
    if (!reading.order) return failed("{}", describe(reading.refusal));
    const orders::OrderRequest& order = *reading.order;
    const store::NewOrder fresh{order.idempotency_key, order.json, order.digest, order.trace_id, daemon::cli_actor()};
    TRY_ASSIGN(const auto answers, job.port.accept({&fresh, 1}));
    const store::AcceptAnswer& answer = answers.front();
    // Not the same order again but another one under its key: to accept it would lose one of the two.
    if (answer.kind == store::AcceptKind::conflict) {
        return failed(
            "IDEMPOTENCY_CONFLICT: order {} was stored with different content (digest {}); a different order needs a "
            "key of its own",
            order.idempotency_key, answer.order.request_digest);
    }
    return job.call.print_line(orders::acceptance_json(answer));
}

Status show(const OrdersJob& job) {
    TRY_ASSIGN(const auto found, job.port.find(job.asked.key));
    if (!found) return failed("no order has the key \"{}\"", job.asked.key);
    return job.call.print_line(orders::detail_json(*found));
}

Status list(const OrdersJob& job) {
    store::OrderQuery query;
    query.status = job.asked.status;
    query.limit = job.asked.limit;
    TRY_ASSIGN(const auto rows, job.port.list(query));
    // Keys are the callers', so their column is as wide as it needs to be.
    const std::string_view key = "idempotency_key";
    Listing listing(job.call,
                    fmt::format("{{:>10}}  {{:<{}}}  {{:<8}}{{:>7}}  {{:<24}}  {{}}",
                                widest(rows, &store::Order::idempotency_key, key)),
                    "id", key, "status", "retries", "created_at", "last_error");
    for (const store::Order& row : rows) {
        listing.row([&] { return orders::row_json(row); }, row.id, row.idempotency_key, row.status, row.retry_count,
                    rfc3339_millis(row.created_at), row.last_error.value_or("") + (row.in_doubt ? " (in doubt)" : ""));
    }
    return listing.end("no orders");
}

}  // namespace

void add_orders(CommandTree& tree) {
    const auto orders = std::make_shared<OrdersArguments>();
    CLI::App* group = tree.group("orders", "Use the order outbox from the shell",
                                 "Examples:\n  deliverd orders submit --file order.json\n"
                                 "  deliverd orders show order-2026-0001\n  deliverd orders list --status dead");

    const PortCommands<OrdersArguments, store::Orders> commands{
        tree, group, orders, [](store::Database& database, const Call& call) -> Result<std::unique_ptr<store::Orders>> {
            return database.orders(call.config().orders);
        }};

    CLI::App* app = commands.add({"submit", "Store an order, as POST /api/v1/orders does",
                                  "  deliverd orders submit --file order.json\n"
                                  "  make-order | deliverd orders submit --file -\n"
                                  "The same order twice is stored once; prints the answer as JSON.",
                                  kAlwaysJson},
                                 submit, read_body);
    text(app, "--file FILE", orders->file, "the order as JSON; - is standard input")->required();

    app = commands.add(
        {"show", "Show one order with its audit trail, as JSON", "  deliverd orders show order-2026-0001", kAlwaysJson},
        show);
    text(app, "key KEY", orders->key, "its idempotency_key")->required();

    app = commands.add(
        {"list", "List orders, newest first",
         "  deliverd orders list --status dead\n  deliverd orders list --limit 1000 --json", "an array of objects"},
        list);
    text(app, "--status STATUS", orders->status, "only these", {"queued", "sending", "sent", "failed", "dead"});
    whole(app, "--limit", orders->limit, 1, 1'000'000, "orders at most");
}

}  // namespace deliverd::cli
