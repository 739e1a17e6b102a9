#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>

#include "app/command.h"
#include "app/command_input.h"
#include "app/parts.h"
#include "base/json_check.h"
#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::app {

namespace {

/// Rows that one transaction of `cleanup` deletes: short enough to hold nobody up.
constexpr std::int32_t kCleanupBatch = 1000;

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

/// How far a cleanup is, for a person who watches.
class OutboxProgress {
public:
    explicit OutboxProgress(const Context& context) : context_(context), on_(isatty(STDERR_FILENO) == 1) {}
    ~OutboxProgress() {
        if (shown_) context_.err << "\r\x1b[K" << std::flush;
    }
    OutboxProgress(const OutboxProgress&) = delete;
    OutboxProgress& operator=(const OutboxProgress&) = delete;
    void show(std::int64_t deleted) {
        if (!on_) return;
        shown_ = true;
        context_.err << fmt::format("\r{} deleted", deleted) << std::flush;
    }

private:
    const Context& context_;
    const bool on_;
    bool shown_ = false;
};

/// One command on an open database.
class OutboxCommand {
public:
    OutboxCommand(const Context& context, const Arguments& arguments, const store::Database& database, Outbox& outbox)
        : context_(context),
          arguments_(arguments.outbox),
          json_(arguments.json),
          database_(database),
          outbox_(outbox) {}

    int add(const std::string& payload) {
        const auto id = outbox_.add({arguments_.aggregate.value_or(""), arguments_.type, payload, arguments_.metadata});
        if (!id) return complain(context_, id.error());
        context_.out << *id << "\n";
        return kDone;
    }

    int run(Action action) {
        switch (action) {
            case Action::outbox_list:
                return list();
            case Action::outbox_show:
                return show();
            case Action::outbox_stats:
                return stats();
            case Action::outbox_cleanup:
                return cleanup();
            case Action::outbox_mark:
                return mark();
            default:
                return count_retry();
        }
    }

private:
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

    /// Each batch is a transaction of its own: what is interrupted has done its part.
    int cleanup() {
        std::int64_t deleted = 0;
        {
            OutboxProgress progress(context_);
            for (;;) {
                const auto batch = outbox_.delete_published(arguments_.older_than_seconds, kCleanupBatch);
                if (!batch) return complain(context_, batch.error());
                deleted += *batch;
                if (*batch < kCleanupBatch) break;
                progress.show(deleted);
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

    const Context& context_;
    const OutboxArguments& arguments_;
    const bool json_;
    const store::Database& database_;
    Outbox& outbox_;
};

}  // namespace

int run_outbox(const Context& context, const Config& config, const Arguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    std::string payload;
    if (arguments.action == Action::outbox_add) {
        auto text = payload_text(context, "--payload", arguments.outbox.payload);
        if (!text) return complain(context, text.error());
        payload = std::move(*text);
    } else if (const auto there = require_existing(config.database); !there) {
        return complain(context, there.error());
    }
    auto database = open_ready_database(config.database, *log);
    if (!database) return complain(context, database.error());
    auto outbox = (*database)->events(cli_actor());
    if (!outbox) return complain(context, outbox.error());
    OutboxCommand command(context, arguments, **database, **outbox);
    return arguments.action == Action::outbox_add ? command.add(payload) : command.run(arguments.action);
}

}  // namespace deliverd::app
