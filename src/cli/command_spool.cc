#include <filesystem>
#include <set>

#include "base/failpoint.h"
#include "base/json_object.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"
#include "daemon/spool_letters.h"
#include "daemon/spool_service.h"
#include "deliverd/spool.h"
#include "sink/http/http_poster.h"

namespace deliverd::cli {

namespace {

struct SpoolArguments {
    std::string file;
    std::string name = "hook";
    NewSpoolEntry entry;  // without payload, which comes from `data`
    std::string data;
    std::optional<std::string> state;
    bool due = false;
    std::optional<std::int64_t> limit;
    std::vector<std::string> ids;
    std::optional<std::string> token_env;
    sink::HttpPosterOptions poster;  // without token and timeout, which come from the two
    double timeout_seconds = 10;
};

constexpr const char* kTokenVariable = "DELIVERD_SPOOL_TOKEN";
constexpr std::int64_t kMaxReportedRejects = 10;
constexpr std::size_t kMaxShownSpoolError = 60;

/// The token of --token-env, which then must be set; otherwise that of kTokenVariable, if set.
Result<std::string> token_of(const Context& context, const SpoolArguments& arguments) {
    const std::string name = arguments.token_env.value_or(kTokenVariable);
    auto token = context.environment(name);
    if (token && !token->empty()) return std::move(*token);
    if (!arguments.token_env) return std::string();
    return misused("--token-env {}: this environment variable is not set, or it is empty", one_line(name));
}

/// The time, or the number itself if it is out of range.
std::string shown_time(std::int64_t ms) {
    const auto time = foreign_time(ms);
    return time ? rfc3339_offset(*time) : std::to_string(ms);
}

/// What a spool command works with.
struct SpoolJob {
    const Call& call;
    const SpoolArguments& asked;
    Spool& spool;
};

Failure unknown(const SpoolJob& job, const std::string& id) {
    return failed("no entry {} in {}", one_line(id), job.asked.file);
}

void note_rejected(const SpoolJob& job, std::int64_t count) {
    if (count == 0) return;
    job.call.note("{} unreadable {} moved to {}.rejected", count, count == 1 ? "line was" : "lines were",
                  job.asked.file);
}

Status add(const SpoolJob& job) {
    NewSpoolEntry entry = job.asked.entry;
    TRY_ASSIGN(entry.payload, text_or_input(job.call.context, "--data", job.asked.data));
    TRY_ASSIGN(const auto added, job.spool.add(entry));
    return job.call.answer(added.json, added.job_id);
}

bool is_wanted(const SpoolArguments& asked, const SpoolEntry& entry, std::int64_t now_ms) {
    if (asked.state && *asked.state != to_string(entry.state)) return false;
    return !asked.due || (entry.state == SpoolState::pending && entry.attempts_made < entry.max_attempts &&
                          entry.next_retry_ms <= now_ms);
}

Status list(const SpoolJob& job) {
    const SpoolArguments& asked = job.asked;
    // Taken once: an entry must not become due while the list is printed.
    const auto now = std::chrono::floor<std::chrono::milliseconds>(SystemClock().wall_now()).time_since_epoch();
    Listing listing(job.call, "{:<28}  {:<9}  {:>8}  {:<29}  {:<30}  {}", "jobId", "state", "attempts", "nextRetry",
                    "error", "endpoint");
    const auto print = [&](const SpoolEntry& entry) {
        const SpoolFault& error = entry.error;
        listing.row(
            [&] { return entry.json; }, one_line(entry.job_id), to_string(entry.state),
            fmt::format("{}/{}", entry.attempts_made, entry.max_attempts),
            entry.state == SpoolState::pending ? shown_time(entry.next_retry_ms) : "–",
            shorten(one_line(error.code ? *error.code + " " + error.message : error.message), kMaxShownSpoolError),
            one_line(entry.endpoint));
    };
    std::int64_t rejects = 0;
    const auto note_reject = [&](const SpoolReject& reject) {
        // A file that is no spool at all has no other lines: a few of them say enough.
        if (rejects++ >= kMaxReportedRejects) return;
        job.call.note("{}:{}: {}; {}", asked.file, reject.line, reject.reason,
                      reject.torn ? "the next `spool add` ends the line"
                                  : fmt::format("the next retry or cleanup moves it to {}.rejected", asked.file));
    };
    const auto look = [&](const SpoolEntry& entry) {
        if (is_wanted(asked, entry, now.count())) print(entry);
        return !asked.limit || listing.count() < *asked.limit;
    };
    TRY(job.spool.each(look, note_reject));
    listing.end("no entries");
    if (rejects > kMaxReportedRejects) job.call.note("{} lines of {} are not entries", rejects, asked.file);
    return kDone;
}

Status show(const SpoolJob& job) {
    // One: `show` shares the member with `resolve`, but its option takes a single word.
    const std::string& id = job.asked.ids.front();
    TRY_ASSIGN(const auto entry, job.spool.find(id));
    return entry ? job.call.print_line(entry->json) : Status(unknown(job, id));
}

/// All rounds that it takes: one retry() sends kMaxSpoolRun entries at most.
Result<SpoolSummary> retry_all_due(const SpoolJob& job, const SpoolSender& sender) {
    Progress progress(job.call.context.err);
    SpoolRetryOptions options;
    options.progress = [&](const SpoolSummary& so_far, std::int64_t of) {
        progress.show(fmt::format("{} of {}: {} resolved, {} failed", so_far.total, of, so_far.resolved,
                                  so_far.failed + so_far.exhausted));
    };
    SpoolSummary sum;
    do {
        TRY_ASSIGN(const auto round, job.spool.retry(sender, options));
        sum.total += round.total;
        sum.resolved += round.resolved;
        sum.failed += round.failed;
        sum.exhausted += round.exhausted;
        sum.recovered += round.recovered;
        sum.rejected += round.rejected;
        sum.more_due = round.more_due;
        // An entry that just failed is not due for a minute, so this ends.
    } while (sum.more_due);
    return sum;
}

Status retry(const SpoolJob& job) {
    const SpoolArguments& asked = job.asked;
    // Before the first entry is sent: an entry sent without its token fails, and costs it an attempt.
    TRY_ASSIGN(auto token, token_of(job.call.context, asked));
    if (!token.empty() && asked.poster.token_hosts.empty()) {
        job.call.note("no token is sent: name the hosts that may have it with --token-host HOST");
    }
    sink::HttpPosterOptions options = asked.poster;
    options.token = std::move(token);
    options.timeout = from_seconds(asked.timeout_seconds);
    TRY_ASSIGN(auto poster, sink::make_http_poster(std::move(options)));
    TRY_ASSIGN(const auto sum, retry_all_due(job, daemon::http_sender(std::move(poster))));
    // Remarks go to the error stream, so that scripts read nothing but the numbers.
    note_rejected(job, sum.rejected);
    if (sum.recovered > 0) job.call.note("recorded {} attempts of an earlier run that had died", sum.recovered);
    job.call.answer(fmt::format(R"({{"total":{},"resolved":{},"failed":{},"exhausted":{}}})", sum.total, sum.resolved,
                                sum.failed, sum.exhausted),
                    fmt::format("{} tried: {} resolved, {} failed, {} exhausted", sum.total, sum.resolved, sum.failed,
                                sum.exhausted));
    return sum.failed + sum.exhausted == 0 ? kDone : kFailed;
}

Status cleanup(const SpoolJob& job) {
    TRY_ASSIGN(const auto done, job.spool.cleanup());
    note_rejected(job, done.rejected);
    return job.call.answer(
        fmt::format(R"({{"kept":{},"removed":{},"rejected":{}}})", done.kept, done.removed, done.rejected),
        fmt::format("{} removed, {} kept", done.removed, done.kept));
}

Status resolve(const SpoolJob& job) {
    // First: one unknown id, such as a misspelt one, must leave the others as they are.
    for (const std::string& id : job.asked.ids) {
        TRY_ASSIGN(const auto entry, job.spool.find(id));
        if (!entry) return unknown(job, id);
    }
    TRY_ASSIGN(const auto resolved, job.spool.resolve(job.asked.ids));
    note_rejected(job, resolved.rejected);
    const std::size_t count = resolved.job_ids.size();
    return job.call.answer(fmt::format(R"({{"resolved":{}}})", count), fmt::format("{} resolved", count));
}

// As the column aggregate_id has it: varchar(255).
constexpr std::size_t kMaxAggregateBytes = 255;
constexpr std::int64_t kMaxReportedRefusals = 10;

struct ImportArguments {
    std::string file;
    std::string to;  // dead-letters | events
    std::optional<std::string> name;
    std::string type = "Webhook";  // of the events
    bool dry_run = false;
};

/// The name of the spool that the configuration has for this file; "hook" if it has none.
std::string configured_name(const config::Config& config, const std::string& path) {
    // By address: the two paths may be written differently, or lead over a link to the same file.
    const std::string address = daemon::file_address(path);
    for (const config::SpoolConfig& spool : config.spools) {
        if (daemon::file_address(spool.path) == address) return spool.name;
    }
    return "hook";
}

/// What an event of an entry refers to: store::ImportedEvent has only views.
struct EventText {
    std::string key;
    std::string aggregate;
    std::string metadata;
};

/// The endpoint and the rest are sent as headers, from the metadata.
EventText event_of(std::string_view spool, const SpoolEntry& entry) {
    EventText text;
    // It follows from the entry, so that an import that is repeated after a kill stores nothing twice.
    text.key = daemon::entry_uuid(spool, entry);
    text.aggregate = entry.job_id.size() <= kMaxAggregateBytes ? entry.job_id : text.key;
    JsonObject metadata;
    metadata.text("idempotencyKey", entry.job_id);
    metadata.text("endpoint", entry.endpoint);
    metadata.text("spool", spool);
    metadata.text("attemptsMade", std::to_string(entry.attempts_made));
    metadata.text("timestamp", std::to_string(entry.timestamp_ms));
    metadata.text("error", entry.error.message);
    text.metadata = metadata.done();
    return text;
}

class SpoolImport {
public:
    SpoolImport(const Call& call, const ImportArguments& arguments, std::string name, store::Database& database)
        : call_(call),
          arguments_(arguments),
          name_(std::move(name)),
          origin_(daemon::file_address(arguments_.file)),
          letters_(database.dead_letters()),
          imports_(database.imports()) {}

    Status run(Spool& spool) {
        SpoolHandedOver sum;  // of a dry run: what there is to import
        const auto count = [&](const SpoolEntry& entry) {
            ++(is_open(entry) ? sum.taken : kept_);
            return true;
        };
        // hand_over() counts only what it hands over; the resolved entries that stay are counted here.
        TRY_ASSIGN(const auto looked, spool.each(count, {}));
        sum.rejected = looked.rejects;
        if (!arguments_.dry_run) {
            SpoolHandOver order;
            // Resolved entries stay: the file is their record until `spool cleanup`.
            order.wanted = is_open;
            order.take = [this](std::span<const SpoolEntry> entries) { return take(entries); };
            TRY_ASSIGN(sum, spool.hand_over(order));
            // The file no longer has any of them.
            if (to_events()) TRY(imports_->forget(origin_));
        }
        report(sum);
        return sum.refused == 0 ? kDone : kFailed;
    }

private:
    static bool is_open(const SpoolEntry& entry) { return entry.state != SpoolState::resolved; }
    [[nodiscard]] bool to_events() const { return arguments_.to == "events"; }

    Result<std::vector<std::size_t>> take(std::span<const SpoolEntry> entries) {
        // The letter names no file: afterwards the entry is in none.
        auto refused = to_events() ? store_events(entries) : daemon::store_entries(*letters_, name_, "", entries);
        // A crash here leaves entries both in the database and in the file; the next run stores none of them again.
        failpoint("spool.after_store");
        if (!refused) return refused;
        for (const std::size_t number : *refused) {
            if (reported_++ >= kMaxReportedRefusals) break;
            call_.note("the database cannot hold {}; it stays in the file", one_line(entries[number].job_id));
        }
        return refused;
    }

    Result<std::vector<std::size_t>> store_events(std::span<const SpoolEntry> entries) {
        std::vector<EventText> texts;
        for (const SpoolEntry& entry : entries) texts.push_back(event_of(name_, entry));
        const auto event = [&](std::size_t at) -> store::ImportedEvent {
            return {texts[at].key, texts[at].aggregate, arguments_.type, entries[at].payload, texts[at].metadata};
        };
        std::vector<store::ImportedEvent> events;
        std::set<std::string_view> keys;
        for (std::size_t at = 0; at < entries.size(); ++at) {
            // A file may have the same line twice; store() takes no key twice in one call.
            if (keys.insert(texts[at].key).second) events.push_back(event(at));
        }
        std::vector<std::size_t> refused;
        const auto stored = imports_->store(origin_, daemon::cli_actor(), events);
        if (stored) return refused;
        if (stored.error().error_class != ErrorClass::permanent) return Failure(stored.error());
        // One entry that the database cannot hold fails the whole batch: each by itself shows which.
        for (std::size_t at = 0; at < entries.size(); ++at) {
            const store::ImportedEvent one = event(at);
            const auto alone = imports_->store(origin_, daemon::cli_actor(), std::span(&one, 1));
            if (alone) continue;
            if (alone.error().error_class != ErrorClass::permanent) return Failure(alone.error());
            refused.push_back(at);
        }
        // All were refused: the entries are not the cause.
        if (refused.size() == entries.size() && entries.size() > 1) return Failure(stored.error());
        return refused;
    }

    void report(const SpoolHandedOver& sum) const {
        if (call_.json) {
            JsonObject object;
            object.text("to", arguments_.to);
            object.text("name", name_);
            object.number("imported", sum.taken);
            object.number("refused", sum.refused);
            object.number("kept", kept_);
            object.number("rejected", sum.rejected);
            if (arguments_.dry_run) object.boolean("dry_run", true);
            call_.print_line(object.done());
            return;
        }
        call_.print("{} {} {}, {} resolved kept\n", sum.taken,
                    arguments_.dry_run ? "would be imported into" : "imported into",
                    to_events() ? "the event outbox" : fmt::format("the dead letters of spool:{}", name_), kept_);
        if (sum.rejected == 0) return;
        call_.note("{} unreadable {} {} {}.rejected", sum.rejected, sum.rejected == 1 ? "line" : "lines",
                   arguments_.dry_run ? "would be moved to" : "moved to", arguments_.file);
    }

    const Call& call_;
    const ImportArguments& arguments_;
    const std::string name_;
    const std::string origin_;
    const std::unique_ptr<store::DeadLetters> letters_;
    const std::unique_ptr<store::Imports> imports_;
    std::int64_t kept_ = 0;
    std::int64_t reported_ = 0;
};

void add_spool_import(CommandTree& tree, CLI::App* group) {
    const auto import = std::make_shared<ImportArguments>();
    const CommandTree::Help help{
        "import", "Move a whole file into a database",
        "  deliverd spool import --file hooks.jsonl --to dead-letters --database sqlite:deliverd.db\n"
        "  deliverd spool import --file hooks.jsonl --to events --dry-run\n"
        "Stores every entry that is not resolved, then removes it from the file. If it is killed, run it again:\n"
        "nothing is stored twice. From the dead letters, `dlq retry` puts an entry back into the spool of that\n"
        "name, if `serve` has one. From the event outbox, a lane of `outbox: events` sends it to the lane's own\n"
        "sink; the endpoint is sent as a header. Exits with 1 if the database cannot hold an entry, which stays in\n"
        "the file.",
        "an object: to, name, imported, refused, kept, rejected"};
    CLI::App* app = tree.add(group, help, [import](const Call& call) -> Status {
        const std::string name = import->name.value_or(configured_name(call.config(), import->file));
        TRY_ASSIGN(const auto spool, open_spool({.path = import->file, .name = name}));
        return with_database(call, MissingFile::refuse, [&](store::Database& database, Log&) {
            return SpoolImport(call, *import, name, database).run(*spool);
        });
    });
    text(app, "--file FILE", import->file, "the spool")->required();
    text(app, "--to PLACE", import->to, "dead-letters or events", {"dead-letters", "events"})->required();
    app->add_option("--name", import->name,
                    "the spool's name; otherwise that of the configured spool with this file, or hook");
    app->add_option("--type", import->type, "the event_type of the events")->default_str(import->type);
    app->add_flag("--dry-run", import->dry_run, "only report what would be imported");
}

constexpr const char* kSpoolAbout =
    "A spool is a file with one line of JSON for each webhook that could not be delivered. It needs no database and no"
    "\n"
    "configuration, and any number of processes may use it at once. An entry is pending until a retry delivers it\n"
    "(resolved) or the fifth attempt failed (exhausted). The waits between are 1, 2, 4, 8 minutes, give or take 30 "
    "seconds.\n"
    "Examples:\n"
    "  deliverd spool add --file hooks.jsonl --endpoint https://example.com/hooks --data @payload.json --error '503'\n"
    "  deliverd spool list --file hooks.jsonl       list the entries and their errors\n"
    "  deliverd spool retry --file hooks.jsonl      send the entries that are due; run it from cron, every minute\n"
    "  deliverd spool cleanup --file hooks.jsonl    remove old resolved and exhausted entries";

}  // namespace

void add_spool(CommandTree& tree) {
    const auto spool = std::make_shared<SpoolArguments>();
    CLI::App* group = tree.group("spool", "Use a dead-letter queue in one file, without a database", kSpoolAbout);
    const auto add_command = [&](const CommandTree::Help& help, Status (*work)(const SpoolJob&)) {
        const auto run = [spool, work](const Call& call) -> Status {
            TRY_ASSIGN(const auto opened, open_spool({.path = spool->file, .name = spool->name}));
            return work({call, *spool, *opened});
        };
        CLI::App* app = tree.add(group, help, run, Needs::nothing);
        text(app, "--file FILE", spool->file, "the spool, one JSON object per line")->required();
        return app;
    };

    CLI::App* app = add_command({"add", "Store a failed webhook and print its id",
                                 "  deliverd spool add --file hooks.jsonl --endpoint https://example.com/hooks \\\n"
                                 "      --data '{\"id\": 7}' --error 'service unavailable' --code 503\n"
                                 "  make-payload | deliverd spool add --file hooks.jsonl --endpoint URL --data -\n"
                                 "When it returns, the entry is on the disk. Creates the file if it is missing.",
                                 "the entry instead of its id"},
                                add);
    text(app, "--endpoint URL", spool->entry.endpoint, "the URL to POST to")->required();
    app->add_option("--data", spool->data, "the payload: JSON, @FILE, or - for standard input")->required();
    app->add_option("--error", spool->entry.error.message, "what went wrong");
    app->add_option("--code", spool->entry.error.code, "HTTP status or error code");
    whole(app, "--attempts-made", spool->entry.attempts_made, 0, 1000, "attempts before the one that failed now");
    whole(app, "--max-attempts", spool->entry.max_attempts, 1, 1000, "after this many attempts it is exhausted");
    app->add_option("--name", spool->name, "the beginning of its id")->default_str(spool->name);

    app = add_command({"list", "List the entries in the file's order",
                       "  deliverd spool list --file hooks.jsonl\n"
                       "  deliverd spool list --file hooks.jsonl --state exhausted --json\n"
                       "Reports lines that are not entries on standard error and leaves them unchanged.",
                       "an array of the entries as they are in the file"},
                      list);
    text(app, "--state STATE", spool->state, "only these", {"pending", "retrying", "exhausted", "resolved"});
    app->add_flag("--due", spool->due, "only the entries that a retry would send now");
    whole(app, "--limit", spool->limit, 1, 1'000'000'000, "entries at most; without it: all");

    app = add_command({"show", "Show one entry as JSON", "  deliverd spool show --file hooks.jsonl JOBID", kAlwaysJson},
                      show);
    text(app, "jobid JOBID", spool->ids, "its jobId")->required()->expected(1);

    app = add_command(
        {"retry", "Send the entries that are due",
         "  deliverd spool retry --file hooks.jsonl\n"
         "  HOOKS_TOKEN=… deliverd spool retry --file hooks.jsonl --token-env HOOKS_TOKEN \\\n"
         "      --token-host example.com --json\n"
         "POSTs the payload with \"idempotencyKey\": the entry's jobId; any 2xx resolves it. Exits with 1 if\n"
         "any failed. Two runs on one file never send an entry twice; the second waits for the first.",
         "an object: total, resolved, failed, exhausted"},
        retry);
    app->add_flag("--allow-private", spool->poster.allow_private,
                  "endpoints may be loopback, private and link-local addresses");
    text(app, "--token-env NAME", spool->token_env,
         "the environment variable with the bearer token; otherwise DELIVERD_SPOOL_TOKEN if that is set");
    text(app, "--token-host HOST", spool->poster.token_hosts,
         "a host that may get the token, over https, or over http to loopback; may be repeated")
        ->expected(1)
        ->take_all();
    seconds(app, "--timeout", spool->timeout_seconds, 3600, "time for each request")
        ->default_str(fmt::format("{}", spool->timeout_seconds));

    add_command({"cleanup", "Remove resolved entries after 24 hours, exhausted ones after 7 days",
                 "  deliverd spool cleanup --file hooks.jsonl\nPending entries stay, however old they are.",
                 "an object: kept, removed, rejected"},
                cleanup);

    app = add_command({"resolve", "Mark entries as resolved by hand",
                       "  deliverd spool resolve --file hooks.jsonl JOBID\nExits with 1 if one of them is unknown.",
                       "an object: resolved"},
                      resolve);
    text(app, "jobid JOBID", spool->ids, "their jobIds")->required();

    add_spool_import(tree, group);
}

}  // namespace deliverd::cli
