#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/json_check.h"
#include "base/json_text.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command_input.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
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

void append_text(std::string& out, const std::optional<std::string>& text) {
    if (text) {
        append_json_string(out, valid_utf8(*text));
    } else {
        out += "null";
    }
}

/// As the database has it: a number's digits stay as they are.
void append_json(std::string& out, const std::string& json) {
    if (json_problem(json, JsonKind::any)) {
        append_json_string(out, valid_utf8(json));
    } else {
        out += json;
    }
}

/// The table's columns, in its order.
std::string to_json(const Event& event) {
    std::string out = fmt::format(R"({{"id":{},"aggregate_id":)", event.id);
    append_text(out, event.aggregate_id);
    out += R"(,"event_type":)";
    append_text(out, event.event_type);
    out += R"(,"payload":)";
    append_json(out, event.payload);
    out += R"(,"created_at":)";
    append_text(out, event.created_at);
    out += R"(,"published_at":)";
    append_text(out, event.published_at);
    out += fmt::format(R"(,"published":{},"event_id":)", event.published);
    append_text(out, event.event_id);
    out += R"(,"metadata":)";
    append_json(out, event.metadata);
    out += fmt::format(R"(,"retry_count":{},"next_attempt_at":)", event.retry_count);
    append_text(out, event.next_attempt_at);
    out += R"(,"last_error":)";
    append_text(out, event.last_error);
    out += R"(,"dead_at":)";
    append_text(out, event.dead_at);
    return out + "}";
}

std::string_view state_of(const Event& event) {
    if (event.published) return "published";
    if (event.dead_at) return "dead";
    return event.retry_count > 0 ? "waiting" : "unpublished";
}

/// The commands on an open database.
class OutboxCommand {
public:
    OutboxCommand(const Call& call, const OutboxArguments& arguments, const store::Database& database, Outbox& outbox)
        : context_(call.context), arguments_(arguments), json_(call.json), database_(database), outbox_(outbox) {}

    int add(const std::string& payload) {
        const auto id = outbox_.add({arguments_.aggregate.value_or(""), arguments_.type, payload, arguments_.metadata});
        if (!id) return complain(context_, id.error());
        context_.out << *id << "\n";
        return kDone;
    }

    int list() {
        const auto rows = arguments_.aggregate ? outbox_.by_aggregate(*arguments_.aggregate, arguments_.limit)
                                               : outbox_.fetch_unpublished(arguments_.limit);
        if (!rows) return complain(context_, rows.error());
        if (json_) {
            context_.out << "[";
            for (std::size_t i = 0; i < rows->size(); ++i)
                context_.out << (i == 0 ? "" : ",\n ") << to_json((*rows)[i]);
            context_.out << "]\n";
        } else {
            print_table(*rows);
        }
        return kDone;
    }

    int show() {
        const auto event = outbox_.show(arguments_.id);
        if (!event) return complain(context_, event.error());
        if (!*event) {
            return complain(context_, kFailed,
                            fmt::format("no event {} in outbox of {}", arguments_.id, database_.describe()));
        }
        context_.out << to_json(**event) << "\n";
        return kDone;
    }

    int stats() {
        const auto found = outbox_.stats();
        if (!found) return complain(context_, found.error());
        const auto& oldest = found->oldest_unpublished_age_seconds;
        if (json_) {
            const boost::json::object answer{
                {"total", found->total},
                {"unpublished", found->unpublished},
                {"published", found->published},
                {"dead", found->dead},
                {"oldest_unpublished_age_seconds", oldest ? boost::json::value(*oldest) : boost::json::value(nullptr)},
                {"max_retries", found->max_retries}};
            context_.out << boost::json::serialize(answer) << "\n";
            return kDone;
        }
        const auto print = [this](std::string_view name, const std::string& value) {
            context_.out << fmt::format("{:<30}  {:>12}\n", name, value);
        };
        print("total", std::to_string(found->total));
        print("unpublished", std::to_string(found->unpublished));
        print("published", std::to_string(found->published));
        print("dead", std::to_string(found->dead));
        print("oldest_unpublished_age_seconds", oldest ? fmt::format("{:.3f}", *oldest) : "-");
        print("max_retries", std::to_string(found->max_retries));
        return kDone;
    }

    /// One transaction per batch: an interrupted cleanup keeps what it has done.
    int cleanup() {
        std::int64_t deleted = 0;
        {
            Progress progress(context_.err);
            for (;;) {
                const auto batch = outbox_.delete_published(arguments_.older_than_seconds, kCleanupBatch);
                if (!batch) return complain(context_, batch.error());
                deleted += *batch;
                if (*batch < kCleanupBatch) break;
                progress.show(fmt::format("{} deleted", deleted));
            }
        }
        if (json_) {
            context_.out << fmt::format("{{\"deleted\":{}}}\n", deleted);
        } else {
            context_.out << deleted << "\n";
        }
        return kDone;
    }

    int mark() {
        const auto marked = outbox_.mark_published(arguments_.id);
        if (!marked) return complain(context_, marked.error());
        context_.out << (*marked ? "true\n" : "false\n");
        return *marked ? kDone : kFailed;
    }

    int count_retry() {
        const auto count = outbox_.increment_retry_count(arguments_.id, arguments_.error);
        if (!count) return complain(context_, count.error());
        if (!*count) {
            return complain(context_, kFailed,
                            fmt::format("event {} is not open in outbox of {}: it is unknown, published or dead",
                                        arguments_.id, database_.describe()));
        }
        context_.out << **count << "\n";
        return kDone;
    }

private:
    void print_table(const std::vector<Event>& rows) {
        if (rows.empty()) {
            context_.out << (arguments_.aggregate ? "no events\n" : "no unpublished events\n");
            return;
        }
        std::size_t aggregate = std::string_view("aggregate_id").size();
        std::size_t type = std::string_view("event_type").size();
        for (const Event& row : rows) {
            aggregate = std::max(aggregate, row.aggregate_id.size());
            type = std::max(type, row.event_type.size());
        }
        const auto print = [&](const auto& id, std::string_view name, std::string_view kind, std::string_view state,
                               const auto& retries, std::string_view created, std::string_view error) {
            context_.out << fmt::format("{:>10}  {:<{}}  {:<{}}  {:<11}{:>7}  {:<27}  {}\n", id, name, aggregate, kind,
                                        type, state, retries, created, error);
        };
        print("id", "aggregate_id", "event_type", "state", "retries", "created_at", "last_error");
        for (const Event& row : rows) {
            print(row.id, one_line(row.aggregate_id), one_line(row.event_type), state_of(row), row.retry_count,
                  row.created_at, one_line(row.last_error.value_or("")));
        }
    }

    const Context& context_;
    const OutboxArguments& arguments_;
    const bool json_;
    const store::Database& database_;
    Outbox& outbox_;
};

using Work = std::function<int(OutboxCommand&)>;

int with_outbox(const Call& call, const OutboxArguments& arguments, MissingFile missing, const Work& work) {
    return with_database(call, missing, [&](store::Database& database, Log&) {
        const auto outbox = database.events(daemon::cli_actor());
        if (!outbox) return complain(call.context, outbox.error());
        OutboxCommand command(call, arguments, database, **outbox);
        return work(command);
    });
}

}  // namespace

void add_outbox(CommandTree& tree) {
    constexpr const char* kAlwaysJson = "accepted; the answer is JSON anyway";
    const auto outbox = std::make_shared<OutboxArguments>();
    CLI::App* group = tree.group(
        "outbox", "Use the event outbox from the shell",
        "Applications write events in their own transaction: INSERT INTO outbox, deliverd.add_event(), or the C++\n"
        "library. These commands are for looking, trying and repairing.\n"
        "Examples:\n  deliverd outbox add --aggregate order-1 --type OrderCreated --payload '{\"total\": 42}'\n"
        "  deliverd outbox list\n  deliverd outbox stats\n  deliverd outbox cleanup --older-than 7d");
    const auto add = [&](const CommandTree::Help& help, int (OutboxCommand::*method)()) {
        return tree.add(group, help, [outbox, method](const Call& call) {
            return with_outbox(call, *outbox, MissingFile::refuse,
                               [method](OutboxCommand& command) { return (command.*method)(); });
        });
    };

    CLI::App* app =
        tree.add(group,
                 {"add", "Store an event and print its id",
                  "  deliverd outbox add --aggregate order-1 --type OrderCreated --payload '{\"total\": 42}'\n"
                  "  deliverd outbox add --aggregate order-1 --type OrderPaid --payload @paid.json --metadata "
                  "'{\"by\": \"me\"}'\n"
                  "  make-event | deliverd outbox add --aggregate order-1 --type OrderPaid --payload -",
                  kAlwaysJson},
                 [outbox](const Call& call) {
                     const auto payload = text_or_input(call.context, "--payload", outbox->payload);
                     if (!payload) return complain(call.context, payload.error());
                     return with_outbox(call, *outbox, MissingFile::create,
                                        [&](OutboxCommand& command) { return command.add(*payload); });
                 });
    app->add_option("--aggregate", outbox->aggregate, "aggregate_id: its events arrive in the order written")
        ->required()
        ->type_name("ID");
    app->add_option("--type", outbox->type, "event_type, such as OrderCreated")->required();
    app->add_option("--payload", outbox->payload, "JSON, or @FILE, or - for standard input")->required();
    app->add_option("--metadata", outbox->metadata, "a JSON object; its entries are sent as headers")
        ->default_str(outbox->metadata);

    app = add({"list", "List unpublished events, or all of one aggregate",
               "  deliverd outbox list\n  deliverd outbox list --aggregate order-1 --json\n"
               "Oldest first. `waiting` has failed and will be tried again, `dead` was given up.",
               "an array of objects with the table's columns"},
              &OutboxCommand::list);
    app->add_option("--aggregate", outbox->aggregate, "all events of this aggregate_id, published and dead ones too")
        ->type_name("ID");
    whole(app, "--limit", outbox->limit, 1, 1'000'000, "events at most")->default_str(std::to_string(outbox->limit));

    app = add({"show", "Show one event as JSON", "  deliverd outbox show 17", kAlwaysJson}, &OutboxCommand::show);
    row_id(app, outbox->id, "id of the event");

    add({"stats", "Count the events per state", "  deliverd outbox stats --json\nReads the whole table.", "an object"},
        &OutboxCommand::stats);

    app = add({"cleanup", "Delete old published events and print how many",
               "  deliverd outbox cleanup\n  deliverd outbox cleanup --older-than 12h\n"
               "Deletes in small transactions: it can be interrupted, and blocks no writer.",
               "an object: deleted"},
              &OutboxCommand::cleanup);
    seconds(app, "--older-than", outbox->older_than_seconds, kMostLeaseSeconds, "published longer ago than this")
        ->default_str("7d");

    app = add({"mark", "Record that an event was published by other means",
               "  deliverd outbox mark 17\n"
               "Prints true (exit 0), or false (exit 1) if it is unknown or was published already.",
               kAlwaysJson},
              &OutboxCommand::mark);
    row_id(app, outbox->id, "id of the event");

    app = add({"retry-count", "Count a failed attempt of an open event and print the new count",
               "  deliverd outbox retry-count 17 --error 'broker said 503'", kAlwaysJson},
              &OutboxCommand::count_retry);
    row_id(app, outbox->id, "id of the event");
    app->add_option("--error", outbox->error, "kept as last_error");
}

}  // namespace deliverd::cli
