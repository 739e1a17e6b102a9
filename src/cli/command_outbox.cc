#include <boost/json.hpp>

#include "base/json_check.h"
#include "base/json_object.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"

namespace deliverd::cli {

namespace {

/// Rows per transaction of `cleanup`: short enough not to block writers.
constexpr std::int32_t kCleanupBatch = 1000;

struct OutboxArguments {
    std::int64_t id = 0;
    std::optional<std::string> aggregate;
    std::string type;
    std::string payload;
    std::string metadata = "{}";
    std::string error;
    std::int32_t limit = kDefaultEventLimit;
    double older_than_seconds = kDefaultKeepSeconds;
};

/// A column of type JSON, as the database has it: a number's digits stay as they are.
void append_json(JsonObject& object, std::string_view name, const std::string& json) {
    // SQLite does not check the column: what is no JSON is shown as a text, so that the answer stays JSON.
    json_problem(json, JsonKind::any) ? object.text(name, json) : object.raw(name, json);
}

/// The table's columns, in its order.
std::string to_json(const Event& event) {
    JsonObject object;
    object.number("id", event.id);
    object.text("aggregate_id", event.aggregate_id);
    object.text("event_type", event.event_type);
    append_json(object, "payload", event.payload);
    object.text("created_at", event.created_at);
    object.text("published_at", event.published_at);
    object.boolean("published", event.published);
    object.text("event_id", event.event_id);
    append_json(object, "metadata", event.metadata);
    object.number("retry_count", event.retry_count);
    object.text("next_attempt_at", event.next_attempt_at);
    object.text("last_error", event.last_error);
    object.text("dead_at", event.dead_at);
    return object.done();
}

std::string_view state_of(const Event& event) {
    if (event.published) return "published";
    if (event.dead_at) return "dead";
    return event.retry_count > 0 ? "waiting" : "unpublished";
}

using OutboxJob = Job<OutboxArguments, Outbox>;

Result<std::string> read_event(const Call& call, const OutboxArguments& asked) {
    return text_or_input(call.context, "--payload", asked.payload);
}

Status add(const OutboxJob& job) {
    const OutboxArguments& asked = job.asked;
    TRY_ASSIGN(const auto id, job.port.add({asked.aggregate.value_or(""), asked.type, job.input, asked.metadata}));
    return job.call.print_line(std::to_string(id));
}

Status list(const OutboxJob& job) {
    const OutboxArguments& asked = job.asked;
    TRY_ASSIGN(const auto rows, asked.aggregate ? job.port.by_aggregate(*asked.aggregate, asked.limit)
                                                : job.port.fetch_unpublished(asked.limit));
    // Names of aggregates and types are the user's, so their columns are as wide as they need to be.
    const std::string format =
        fmt::format("{{:>10}}  {{:<{}}}  {{:<{}}}  {{:<11}}{{:>7}}  {{:<27}}  {{}}",
                    widest(rows, &Event::aggregate_id, "aggregate_id"), widest(rows, &Event::event_type, "event_type"));
    Listing listing(job.call, format, "id", "aggregate_id", "event_type", "state", "retries", "created_at",
                    "last_error");
    for (const Event& row : rows) {
        listing.row([&] { return to_json(row); }, row.id, one_line(row.aggregate_id), one_line(row.event_type),
                    state_of(row), row.retry_count, row.created_at, one_line(row.last_error.value_or("")));
    }
    return listing.end(asked.aggregate ? "no events" : "no unpublished events");
}

Status show(const OutboxJob& job) {
    TRY_ASSIGN(const auto event, job.port.show(job.asked.id));
    if (!event) return failed("no event {} in outbox of {}", job.asked.id, job.database.describe());
    return job.call.print_line(to_json(*event));
}

Status stats(const OutboxJob& job) {
    TRY_ASSIGN(const auto found, job.port.stats());
    const auto& oldest = found.oldest_unpublished_age_seconds;
    const boost::json::object answer{
        {"total", found.total},
        {"unpublished", found.unpublished},
        {"published", found.published},
        {"dead", found.dead},
        {"oldest_unpublished_age_seconds", oldest ? boost::json::value(*oldest) : boost::json::value(nullptr)},
        {"max_retries", found.max_retries}};
    if (job.call.json) return job.call.print_line(boost::json::serialize(answer));
    for (const auto& [name, value] : answer) {
        const std::string shown = value.is_null()     ? "-"
                                  : value.is_double() ? fmt::format("{:.3f}", value.get_double())
                                                      : boost::json::serialize(value);
        job.call.print("{:<30}  {:>12}\n", std::string_view(name), shown);
    }
    return kDone;
}

/// One transaction per batch: an interrupted cleanup keeps what it has done.
Status cleanup(const OutboxJob& job) {
    std::int64_t deleted = 0;
    {
        Progress progress(job.call.context.err);  // cleared before the answer, which may go to the same terminal
        for (;;) {
            TRY_ASSIGN(const auto batch, job.port.delete_published(job.asked.older_than_seconds, kCleanupBatch));
            deleted += batch;
            if (batch < kCleanupBatch) break;
            progress.show(fmt::format("{} deleted", deleted));
        }
    }
    return job.call.answer(fmt::format(R"({{"deleted":{}}})", deleted), std::to_string(deleted));
}

Status mark(const OutboxJob& job) {
    return job.call.print_truth(job.port.mark_published(job.asked.id));
}

Status count_retry(const OutboxJob& job) {
    TRY_ASSIGN(const auto count, job.port.increment_retry_count(job.asked.id, job.asked.error));
    if (count) return job.call.print_line(std::to_string(*count));
    return failed("event {} is not open in outbox of {}: it is unknown, published or dead", job.asked.id,
                  job.database.describe());
}

}  // namespace

void add_outbox(CommandTree& tree) {
    const auto outbox = std::make_shared<OutboxArguments>();
    CLI::App* group = tree.group(
        "outbox", "Use the event outbox from the shell",
        "Applications write events in their own transaction: INSERT INTO outbox, deliverd.add_event(), or the C++\n"
        "library. Use these commands to inspect, test and repair.\n"
        "Examples:\n  deliverd outbox add --aggregate order-1 --type OrderCreated --payload '{\"total\": 42}'\n"
        "  deliverd outbox list\n  deliverd outbox stats\n  deliverd outbox cleanup --older-than 7d");
    const PortCommands<OutboxArguments, Outbox> commands{
        tree, group, outbox,
        [](store::Database& database, const Call&) { return database.events(daemon::cli_actor()); }};

    CLI::App* app =
        commands.add({"add", "Store an event and print its id",
                      "  deliverd outbox add --aggregate order-1 --type OrderCreated --payload '{\"total\": 42}'\n"
                      "  deliverd outbox add --aggregate order-1 --type OrderPaid --payload @paid.json --metadata "
                      "'{\"by\": \"me\"}'\n"
                      "  make-event | deliverd outbox add --aggregate order-1 --type OrderPaid --payload -",
                      kAlwaysJson},
                     add, read_event);
    text(app, "--aggregate ID", outbox->aggregate, "aggregate_id: its events arrive in the order written")->required();
    app->add_option("--type", outbox->type, "event_type, such as OrderCreated")->required();
    app->add_option("--payload", outbox->payload, "JSON, or @FILE, or - for standard input")->required();
    app->add_option("--metadata", outbox->metadata, "a JSON object; its entries are sent as headers")
        ->default_str(outbox->metadata);

    app = commands.add(
        {"list", "List unpublished events, or all of one aggregate",
         "  deliverd outbox list\n  deliverd outbox list --aggregate order-1 --json\n"
         "Oldest first. A `waiting` event has failed and is tried again later; a `dead` event was given up.",
         "an array of objects with the table's columns"},
        list);
    text(app, "--aggregate ID", outbox->aggregate, "all events of this aggregate_id, published and dead ones too");
    whole(app, "--limit", outbox->limit, 1, 1'000'000, "events at most");

    app = commands.add({"show", "Show one event as JSON", "  deliverd outbox show 17", kAlwaysJson}, show);
    row_id(app, outbox->id, "id of the event");

    commands.add(
        {"stats", "Count the events per state", "  deliverd outbox stats --json\nReads the whole table.", "an object"},
        stats);

    app = commands.add({"cleanup", "Delete old published events and print how many",
                        "  deliverd outbox cleanup\n  deliverd outbox cleanup --older-than 12h\n"
                        "Deletes in small transactions: you can interrupt it, and it blocks no writer.",
                        "an object: deleted"},
                       cleanup);
    seconds(app, "--older-than", outbox->older_than_seconds, kMostLeaseSeconds, "published longer ago than this")
        ->default_str("7d");

    app = commands.add({"mark", "Record that an event was published by other means",
                        "  deliverd outbox mark 17\n"
                        "Prints true (exit 0), or false (exit 1) if it is unknown or was already published.",
                        kAlwaysJson},
                       mark);
    row_id(app, outbox->id, "id of the event");

    app = commands.add({"retry-count", "Count a failed attempt of an open event and print the new count",
                        "  deliverd outbox retry-count 17 --error 'broker said 503'", kAlwaysJson},
                       count_retry);
    row_id(app, outbox->id, "id of the event");
    app->add_option("--error", outbox->error, "kept as last_error");
}

}  // namespace deliverd::cli
