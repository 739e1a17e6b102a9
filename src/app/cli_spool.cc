#include "app/cli_spool.h"

#include "app/cli_numbers.h"

namespace deliverd::app {

namespace {

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

void add_spool_commands(CLI::App& root, SpoolArguments& spool, bool& dry_run, const AddCommand& add_with_config,
                        const AddPlainCommand& add) {
    CLI::App* parent = root.add_subcommand("spool", "A dead-letter queue in one file, without a database");
    parent->footer(kSpoolAbout);
    const auto on_file = [&](Action action, const char* name, const char* about, const char* examples,
                             const char* json) {
        CLI::App* app = add(parent, action, name, about, examples, json);
        app->add_option("--file", spool.file, "the spool, one JSON object a line")->required()->type_name("FILE");
        return app;
    };

    CLI::App* app = on_file(Action::spool_add, "add", "Keep what could not be delivered; prints its id",
                            "  deliverd spool add --file hooks.jsonl --endpoint https://example.com/hooks \\\n"
                            "      --data '{\"id\": 7}' --error 'service unavailable' --code 503\n"
                            "  make-payload | deliverd spool add --file hooks.jsonl --endpoint URL --data @-\n"
                            "On the disk when it returns. The file is made where it is not there.",
                            "the entry instead of its id");
    app->add_option("--endpoint", spool.endpoint, "where it is to be POSTed")->required()->type_name("URL");
    app->add_option("--data", spool.data, "the payload: JSON, @FILE, or - for standard input")->required();
    app->add_option("--error", spool.error, "what went wrong");
    app->add_option("--code", spool.code, "HTTP status or error code");
    whole(app, "--attempts-made", spool.attempts_made, 0, 1000, "attempts before the one that failed now")
        ->default_str("0");
    whole(app, "--max-attempts", spool.max_attempts, 1, 1000, "after so many it is exhausted")
        ->default_str(std::to_string(spool.max_attempts));
    app->add_option("--name", spool.name, "what its id begins with")->default_str(spool.name);

    app = on_file(Action::spool_list, "list", "Entries in the file's order",
                  "  deliverd spool list --file hooks.jsonl\n"
                  "  deliverd spool list --file hooks.jsonl --state exhausted --json\n"
                  "Lines that are no entries are told of on standard error, and changed by nothing.",
                  "an array of the entries as they stand in the file");
    app->add_option("--state", spool.state, "only these")
        ->check(CLI::IsMember({"pending", "retrying", "exhausted", "resolved"}))
        ->type_name("STATE");
    app->add_flag("--due", spool.due, "only what a retry would send now");
    whole(app, "--limit", spool.limit, 1, 1'000'000'000, "at most so many; all without it");

    app = on_file(Action::spool_show, "show", "One entry as JSON", "  deliverd spool show --file hooks.jsonl JOBID",
                  "accepted; the answer is JSON anyway");
    app->add_option("jobid", spool.ids, "its jobId")->required()->expected(1)->type_name("JOBID");

    app = on_file(
        Action::spool_retry, "retry", "Send what is due",
        "  deliverd spool retry --file hooks.jsonl\n"
        "  HOOKS_TOKEN=… deliverd spool retry --file hooks.jsonl --token-env HOOKS_TOKEN \\\n"
        "      --token-host example.com --json\n"
        "POST with the payload and \"idempotencyKey\": the entry's jobId; any 2xx resolves it. Exit 1 when any\n"
        "failed. Two runs on one file never send an entry twice; the second waits for the first.",
        "an object: total, resolved, failed, exhausted");
    app->add_flag("--allow-private", spool.allow_private,
                  "endpoints may be loopback, private and link-local addresses");
    app->add_option("--token-env", spool.token_env,
                    "the environment variable with the bearer token; else DELIVERD_SPOOL_TOKEN where that is set")
        ->type_name("NAME");
    app->add_option("--token-host", spool.token_hosts,
                    "a host the token may be sent to, over https, or over http to loopback; may be repeated")
        ->type_name("HOST")
        ->expected(1)
        ->take_all();
    seconds(app, "--timeout", spool.timeout_seconds, 3600, "a request may take")
        ->default_str(fmt::format("{}", spool.timeout_seconds));

    on_file(Action::spool_cleanup, "cleanup", "Drop resolved entries after 24 hours, exhausted ones after 7 days",
            "  deliverd spool cleanup --file hooks.jsonl\nPending entries stay, however old they are.",
            "an object: kept, removed, rejected");

    app = on_file(Action::spool_resolve, "resolve", "Mark entries as dealt with, by hand",
                  "  deliverd spool resolve --file hooks.jsonl JOBID\nExit 1 when one of them is not there.",
                  "an object: resolved");
    app->add_option("jobid", spool.ids, "their jobIds")->required()->type_name("JOBID");

    app = add_with_config(
        parent, Action::spool_import, "import", "Move a whole file into a database",
        "  deliverd spool import --file hooks.jsonl --to dead-letters --database sqlite:deliverd.db\n"
        "  deliverd spool import --file hooks.jsonl --to events --dry-run\n"
        "Everything that is not resolved is stored first and then taken out of the file: killed at any moment, it\n"
        "is repeated without storing anything twice. To the dead letters: `dlq retry` puts an entry back into the\n"
        "spool of that name, where `serve` has one. To the event outbox: a lane of `outbox: events` sends it to its\n"
        "own sink; the endpoint travels as a header. Exit 1 when the database cannot hold one of them: it stays.",
        "an object: to, name, imported, refused, kept, rejected");
    app->add_option("--file", spool.file, "the spool")->required()->type_name("FILE");
    app->add_option("--to", spool.to, "dead-letters or events")
        ->required()
        ->check(CLI::IsMember({"dead-letters", "events"}))
        ->type_name("PLACE");
    app->add_option("--name", spool.import_name,
                    "the spool's name; else the one below `spools` in the configuration that has this file, or hook");
    app->add_option("--type", spool.type, "the event_type of the events")->default_str(spool.type);
    app->add_flag("--dry-run", dry_run, "only say what there is to import");
}

}  // namespace deliverd::app
