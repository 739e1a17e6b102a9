#include <fmt/format.h>

#include "base/json_object.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command_input.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "daemon/spool_sender.h"
#include "deliverd/spool.h"
#include "sink/http/http_poster.h"

namespace deliverd::cli {

namespace {

struct SpoolArguments {
    std::string file;
    std::string name = "hook";
    std::string endpoint;
    std::string data;
    std::string error;
    std::optional<std::string> code;
    std::int32_t attempts_made = 0;
    std::int32_t max_attempts = kSpoolMaxAttempts;
    std::optional<std::string> state;
    bool due = false;
    std::optional<std::int64_t> limit;
    std::vector<std::string> ids;
    bool allow_private = false;
    std::optional<std::string> token_env;
    std::vector<std::string> token_hosts;
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
    return bad_argument(
        fmt::format("--token-env {}: there is no such environment variable, or it is empty", one_line(name)));
}

/// The time, or the number itself if it is out of range.
std::string shown_time(std::int64_t ms) {
    const auto time = foreign_time(ms);
    return time ? rfc3339_offset(*time) : std::to_string(ms);
}

class SpoolCommand {
public:
    SpoolCommand(const Call& call, const SpoolArguments& arguments, Spool& spool)
        : context_(call.context), arguments_(arguments), json_(call.json), spool_(spool) {}

    int add() {
        auto payload = text_or_input(context_, "--data", arguments_.data);
        if (!payload) return complain(context_, payload.error());
        NewSpoolEntry entry;
        entry.endpoint = arguments_.endpoint;
        entry.payload = std::move(*payload);
        entry.error = {arguments_.error, arguments_.code};
        entry.attempts_made = arguments_.attempts_made;
        entry.max_attempts = arguments_.max_attempts;
        const auto added = spool_.add(entry);
        if (!added) return complain(context_, added.error());
        context_.out << (json_ ? added->json : added->job_id) << "\n";
        return kDone;
    }

    int list() {
        std::int64_t shown = 0;
        std::int64_t rejects = 0;
        const auto looked = spool_.each(
            [&](const SpoolEntry& entry) {
                if (is_wanted(entry)) print(entry, shown++ == 0);
                return !arguments_.limit || shown < *arguments_.limit;
            },
            [&](const SpoolReject& reject) {
                if (rejects++ < kMaxReportedRejects) report(reject);
            });
        if (!looked) return complain(context_, looked.error());
        if (json_) {
            context_.out << (shown == 0 ? "[]\n" : "]\n");
        } else if (shown == 0) {
            context_.out << "no entries\n";
        }
        if (rejects > kMaxReportedRejects) {
            complain(context_, kDone, fmt::format("{} lines of {} are no entries", rejects, arguments_.file));
        }
        return kDone;
    }

    int show() {
        const auto entry = spool_.find(arguments_.ids.front());
        if (!entry) return complain(context_, entry.error());
        if (!*entry) return unknown(arguments_.ids.front());
        context_.out << (*entry)->json << "\n";
        return kDone;
    }

    int retry() {
        auto token = token_of(context_, arguments_);
        if (!token) return complain(context_, token.error());
        if (!token->empty() && arguments_.token_hosts.empty()) {
            complain(context_, kDone, "no token is sent: name the hosts that may have it with --token-host HOST");
        }
        auto poster = sink::make_http_poster({.token = std::move(*token),
                                              .token_hosts = arguments_.token_hosts,
                                              .allow_private = arguments_.allow_private,
                                              .timeout = from_seconds(arguments_.timeout_seconds)});
        if (!poster) return complain(context_, poster.error());
        const SpoolSender sender = daemon::http_sender(std::move(*poster));
        SpoolSummary sum;
        {
            Progress progress(context_.err);
            SpoolRetryOptions options;
            options.progress = [&](const SpoolSummary& so_far, std::int64_t of) {
                progress.show(fmt::format("{} of {}: {} resolved, {} failed", so_far.total, of, so_far.resolved,
                                          so_far.failed + so_far.exhausted));
            };
            bool more = true;
            while (more) {
                const auto round = spool_.retry(sender, options);
                if (!round) return complain(context_, round.error());
                sum.total += round->total;
                sum.resolved += round->resolved;
                sum.failed += round->failed;
                sum.exhausted += round->exhausted;
                sum.recovered += round->recovered;
                sum.rejected += round->rejected;
                more = round->more_due;
            }
        }
        report(sum);
        return sum.failed + sum.exhausted == 0 ? kDone : kFailed;
    }

    int cleanup() {
        const auto done = spool_.cleanup();
        if (!done) return complain(context_, done.error());
        report_rejected(done->rejected);
        if (json_) {
            JsonObject object;
            object.number("kept", done->kept);
            object.number("removed", done->removed);
            object.number("rejected", done->rejected);
            context_.out << object.done() << "\n";
        } else {
            context_.out << fmt::format("{} removed, {} kept\n", done->removed, done->kept);
        }
        return kDone;
    }

    int resolve() {
        for (const std::string& id : arguments_.ids) {
            const auto there = spool_.find(id);
            if (!there) return complain(context_, there.error());
            if (!*there) return unknown(id);
        }
        const auto resolved = spool_.resolve(arguments_.ids);
        if (!resolved) return complain(context_, resolved.error());
        report_rejected(resolved->rejected);
        const std::size_t count = resolved->job_ids.size();
        if (json_) {
            context_.out << fmt::format("{{\"resolved\":{}}}\n", count);
        } else {
            context_.out << fmt::format("{} resolved\n", count);
        }
        return kDone;
    }

private:
    [[nodiscard]] bool is_wanted(const SpoolEntry& entry) const {
        if (arguments_.state && *arguments_.state != to_string(entry.state)) return false;
        if (!arguments_.due) return true;
        const auto now = std::chrono::floor<std::chrono::milliseconds>(SystemClock().wall_now());
        return entry.state == SpoolState::pending && entry.attempts_made < entry.max_attempts &&
               entry.next_retry_ms <= now.time_since_epoch().count();
    }

    void report(const SpoolReject& reject) {
        complain(
            context_, kDone,
            fmt::format("{}:{}: {}; {}", arguments_.file, reject.line, reject.reason,
                        reject.torn ? "the next `spool add` ends it" : "the next retry or cleanup moves it aside"));
    }

    void print(const SpoolEntry& entry, bool first) {
        if (json_) {
            context_.out << (first ? "[" : ",\n ") << entry.json;
            return;
        }
        if (first) print_row("jobId", "state", "attempts", "nextRetry", "error", "endpoint");
        const std::string error =
            entry.error.code ? fmt::format("{} {}", *entry.error.code, entry.error.message) : entry.error.message;
        print_row(one_line(entry.job_id), to_string(entry.state),
                  fmt::format("{}/{}", entry.attempts_made, entry.max_attempts),
                  entry.state == SpoolState::pending ? shown_time(entry.next_retry_ms) : "–",
                  shorten(one_line(error), kMaxShownSpoolError), one_line(entry.endpoint));
    }

    void print_row(std::string_view id, std::string_view state, std::string_view attempts, std::string_view next,
                   std::string_view error, std::string_view endpoint) {
        context_.out << fmt::format("{:<28}  {:<9}  {:>8}  {:<29}  {:<30}  {}\n", id, state, attempts, next, error,
                                    endpoint);
    }

    int unknown(const std::string& id) {
        return complain(context_, kFailed, fmt::format("no entry {} in {}", one_line(id), arguments_.file));
    }

    void report(const SpoolSummary& sum) {
        report_rejected(sum.rejected);
        if (sum.recovered > 0) {
            complain(context_, kDone, fmt::format("{} attempts of a run that died were recorded", sum.recovered));
        }
        if (!json_) {
            context_.out << fmt::format("{} tried: {} resolved, {} failed, {} exhausted\n", sum.total, sum.resolved,
                                        sum.failed, sum.exhausted);
            return;
        }
        JsonObject object;
        object.number("total", sum.total);
        object.number("resolved", sum.resolved);
        object.number("failed", sum.failed);
        object.number("exhausted", sum.exhausted);
        context_.out << object.done() << "\n";
    }

    void report_rejected(std::int64_t count) {
        if (count == 0) return;
        complain(context_, kDone,
                 fmt::format("{} unreadable {} moved to {}.rejected", count, count == 1 ? "line was" : "lines were",
                             arguments_.file));
    }

    const Context& context_;
    const SpoolArguments& arguments_;
    const bool json_;
    Spool& spool_;
};

constexpr const char* kSpoolAbout =
    "A spool is a file with one line of JSON for each webhook that could not be delivered. It needs no database and "
    "no\n"
    "configuration, and any number of processes may use it at once. An entry is pending until a retry delivers it\n"
    "(resolved) or the fifth attempt failed (exhausted). The waits between are 1, 2, 4, 8 minutes, give or take 30 "
    "seconds.\n"
    "Examples:\n"
    "  deliverd spool add --file hooks.jsonl --endpoint https://example.com/hooks --data @payload.json --error '503'\n"
    "  deliverd spool list --file hooks.jsonl       what waits, and what went wrong?\n"
    "  deliverd spool retry --file hooks.jsonl      send what is due; from cron, every minute\n"
    "  deliverd spool cleanup --file hooks.jsonl    drop what was dealt with long ago";

}  // namespace

void add_spool(CommandTree& tree) {
    constexpr const char* kAlwaysJson = "accepted; the answer is JSON anyway";
    const auto spool = std::make_shared<SpoolArguments>();
    CLI::App* group = tree.group("spool", "Use a dead-letter queue in one file, without a database", kSpoolAbout);
    const auto add = [&](const CommandTree::Help& help, int (SpoolCommand::*method)()) {
        const auto run = [spool, method](const Call& call) {
            const auto opened = open_spool({.path = spool->file, .name = spool->name});
            if (!opened) return complain(call.context, opened.error());
            SpoolCommand command(call, *spool, **opened);
            return (command.*method)();
        };
        CLI::App* app = tree.add(group, help, run, Needs::nothing);
        app->add_option("--file", spool->file, "the spool, one JSON object per line")->required()->type_name("FILE");
        return app;
    };

    CLI::App* app = add({"add", "Store what could not be delivered and print its id",
                         "  deliverd spool add --file hooks.jsonl --endpoint https://example.com/hooks \\\n"
                         "      --data '{\"id\": 7}' --error 'service unavailable' --code 503\n"
                         "  make-payload | deliverd spool add --file hooks.jsonl --endpoint URL --data -\n"
                         "When it returns, the entry is on the disk. Creates the file if it is missing.",
                         "the entry instead of its id"},
                        &SpoolCommand::add);
    app->add_option("--endpoint", spool->endpoint, "the URL to POST to")->required()->type_name("URL");
    app->add_option("--data", spool->data, "the payload: JSON, @FILE, or - for standard input")->required();
    app->add_option("--error", spool->error, "what went wrong");
    app->add_option("--code", spool->code, "HTTP status or error code");
    whole(app, "--attempts-made", spool->attempts_made, 0, 1000, "attempts before the one that failed now")
        ->default_str("0");
    whole(app, "--max-attempts", spool->max_attempts, 1, 1000, "after this many attempts it is exhausted")
        ->default_str(std::to_string(spool->max_attempts));
    app->add_option("--name", spool->name, "the beginning of its id")->default_str(spool->name);

    app = add({"list", "List the entries in the file's order",
               "  deliverd spool list --file hooks.jsonl\n"
               "  deliverd spool list --file hooks.jsonl --state exhausted --json\n"
               "Reports lines that are no entries on standard error, and leaves them as they are.",
               "an array of the entries as they are in the file"},
              &SpoolCommand::list);
    app->add_option("--state", spool->state, "only these")
        ->check(CLI::IsMember({"pending", "retrying", "exhausted", "resolved"}))
        ->type_name("STATE");
    app->add_flag("--due", spool->due, "only what a retry would send now");
    whole(app, "--limit", spool->limit, 1, 1'000'000'000, "entries at most; without it: all");

    app = add({"show", "Show one entry as JSON", "  deliverd spool show --file hooks.jsonl JOBID", kAlwaysJson},
              &SpoolCommand::show);
    app->add_option("jobid", spool->ids, "its jobId")->required()->expected(1)->type_name("JOBID");

    app = add({"retry", "Send what is due",
               "  deliverd spool retry --file hooks.jsonl\n"
               "  HOOKS_TOKEN=… deliverd spool retry --file hooks.jsonl --token-env HOOKS_TOKEN \\\n"
               "      --token-host example.com --json\n"
               "POSTs the payload with \"idempotencyKey\": the entry's jobId; any 2xx resolves it. Exit 1 if any\n"
               "failed. Two runs on one file never send an entry twice; the second waits for the first.",
               "an object: total, resolved, failed, exhausted"},
              &SpoolCommand::retry);
    app->add_flag("--allow-private", spool->allow_private,
                  "endpoints may be loopback, private and link-local addresses");
    app->add_option("--token-env", spool->token_env,
                    "the environment variable with the bearer token; otherwise DELIVERD_SPOOL_TOKEN if that is set")
        ->type_name("NAME");
    app->add_option("--token-host", spool->token_hosts,
                    "a host that may get the token, over https, or over http to loopback; may be repeated")
        ->type_name("HOST")
        ->expected(1)
        ->take_all();
    seconds(app, "--timeout", spool->timeout_seconds, 3600, "time for each request")
        ->default_str(fmt::format("{}", spool->timeout_seconds));

    add({"cleanup", "Remove resolved entries after 24 hours, exhausted ones after 7 days",
         "  deliverd spool cleanup --file hooks.jsonl\nPending entries stay, however old they are.",
         "an object: kept, removed, rejected"},
        &SpoolCommand::cleanup);

    app = add(
        {"resolve", "Mark entries as resolved by hand",
         "  deliverd spool resolve --file hooks.jsonl JOBID\nExit 1 if one of them is unknown.", "an object: resolved"},
        &SpoolCommand::resolve);
    app->add_option("jobid", spool->ids, "their jobIds")->required()->type_name("JOBID");

    add_spool_import(tree, group);
}

}  // namespace deliverd::cli
