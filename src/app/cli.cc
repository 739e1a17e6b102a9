#include "app/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <vector>

#include "app/cli_dlq.h"
#include "app/cli_numbers.h"
#include "app/cli_outbox.h"
#include "app/cli_spool.h"
#include "base/text.h"

namespace deliverd::app {

namespace {

constexpr const char* kAbout =
    "deliverd delivers messages that were committed to a database: once in effect, with retries, or into a dead\n"
    "state where a person can see them. They are never lost and never silently doubled.";

constexpr const char* kMainExamples =
    "Try it:\n"
    "  deliverd demo                                  watch messages being delivered, retried, given up\n"
    "  deliverd config check --config deliverd.yaml   is the configuration right?\n"
    "  deliverd serve --config deliverd.yaml          run the API and all lanes\n"
    "\n"
    "Configuration: --config FILE, else CONFIG_PATH, else ./deliverd.yaml, else built-in defaults.\n"
    "Exit status: 0 done, 1 something failed, 2 wrong usage or configuration.";

/// Builds the command tree over one Arguments and keeps which action each leaf stands for.
class CommandTree {
public:
    CommandTree() : root_(kAbout, "deliverd") {
        root_.footer(kMainExamples);
        root_.set_version_flag("--version", fmt::format("deliverd {}", version()));
        add_services();
        add_lease();
        add_orders();
        const AddCommand add = [this](App* parent, Action action, const std::string& name, const std::string& about,
                                      const std::string& examples, const char* json) {
            App* app = command(parent, action, name, about, examples);
            with_config(app);
            with_json(app, json);
            return app;
        };
        add_outbox_commands(root_, arguments_.outbox, add);
        add_dlq_commands(root_, arguments_.dlq, add);
        add_spool_commands(root_, arguments_.spool, arguments_.dry_run, add,
                           [this](App* parent, Action action, const std::string& name, const std::string& about,
                                  const std::string& examples, const char* json) {
                               App* app = command(parent, action, name, about, examples);
                               with_json(app, json);
                               return app;
                           });
        add_tools();
    }

    ParsedCommandLine parse(std::span<const std::string> words) {
        std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
        if (!reversed.empty() && reversed.back() == "help") {             // `help lease` is `lease --help`
            reversed.pop_back();
            reversed.insert(reversed.begin(), "--help");
        }
        try {
            root_.parse(reversed);
        } catch (const CLI::Success& wanted) {
            if (const auto unknown = unknown_word()) return wrong(*unknown);
            return told(wanted);
        } catch (const CLI::ArgumentMismatch& error) {
            return wrong(wrong_count(error));
        } catch (const CLI::ConversionError& error) {
            return wrong(value_of_a_flag(error));
        } catch (const CLI::ParseError& error) {
            return wrong(unknown_word().value_or(error.what()));
        }
        if (const auto unknown = unknown_word()) return wrong(*unknown);
        return finished();
    }

private:
    using App = CLI::App;

    App* command(App* parent, Action action, const std::string& name, const std::string& about,
                 const std::string& examples) {
        App* app = parent->add_subcommand(name, about);
        app->footer("Examples:\n" + examples);
        actions_.emplace_back(app, action);
        return app;
    }

    void with_config(App* app) {
        app->add_option("--config", arguments_.config.config_path, "configuration file")->type_name("FILE");
        app->add_option("--database", arguments_.config.database_url,
                        "postgres://… or sqlite:PATH; wins over the file and DATABASE_URL")
            ->type_name("URL");
    }
    void with_json(App* app, const char* about) { app->add_flag("--json", arguments_.json, about); }

    void add_services() {
        App* serve = command(&root_, Action::serve, "serve", "Run the API and all lanes",
                             "  deliverd serve\n  deliverd serve --config /etc/deliverd.yaml\n"
                             "SIGTERM or Ctrl-C drains; a second one stops at once.");
        with_config(serve);

        App* demo = command(&root_, Action::demo, "demo", "Watch it work: throw-away database, unreliable receiver",
                            "  deliverd demo\n  deliverd demo --seconds 20 --rate 100");
        seconds(demo, "--seconds", arguments_.demo.seconds, 86400, "end by itself after so long");
        bounded<double>(demo, "--rate", arguments_.demo.rate, parse_number, "a number", 0.1, 5000,
                        "memories enqueued a second");
        whole(demo, "--port", arguments_.demo.port, 0, 65535, "of the API; without it 8080 if free, else any");

        App* worker = command(&root_, Action::worker, "worker", "Work one lane, without the API",
                              "  deliverd worker --lane memories --once\n"
                              "  deliverd worker --lane memories --loop --batch-size 500 --worker-id blue-1\n"
                              "--once works one batch and exits 1 when anything failed.");
        with_config(worker);
        with_json(worker, "print the summary as JSON");
        worker->add_option("--lane", arguments_.worker.lane, "a name below `lanes:` in the configuration")->required();
        worker->add_flag("--once", arguments_.worker.once, "one batch, then exit");
        worker->add_flag("--loop", arguments_.worker.loop, "until SIGTERM or Ctrl-C");
        worker->add_option("--worker-id", arguments_.worker.worker_id, "unique on the table; host-pid-random else");
        lane_flag(worker, "--batch-size", "batch_size", "rows a claim takes");
        lane_flag(worker, "--max-retries", "retry.max",
                  "the failure with this number is the last; orders: the one after so many retries");
        lane_flag(worker, "--base-backoff", "retry.base_seconds",
                  "seconds; the wait after n failures is base * 2^n, orders: base * 2^(n-1)");
        lane_flag(worker, "--loop-interval", "loop_interval_seconds", "seconds between looks at an empty table");
        lane_flag(worker, "--lease-seconds", "lease_seconds", "how long a claim holds");
    }

    void lane_flag(App* worker, const std::string& flag, const std::string& setting, const std::string& about) {
        worker
            ->add_option_function<std::string>(
                flag,
                [this, flag, setting](const std::string& text) {
                    arguments_.config.overrides.push_back({setting, text, flag});
                },
                about + "; wins over the lane's configuration")
            ->type_name("N");
    }

    App* lease_command(App* parent, Action action, const std::string& name, const std::string& about,
                       const std::string& examples) {
        App* app = command(parent, action, name, about, examples);
        with_config(app);
        with_json(app, action == Action::lease_claim ? "one array instead of an object a line"
                                                     : "accepted; the answer is JSON anyway");
        return app;
    }

    /// The four that settle: they name a row and the worker that holds it.
    App* settling(App* parent, Action action, const std::string& name, const std::string& about,
                  const std::string& examples) {
        App* app = lease_command(parent, action, name, about, examples + "\nPrints true (exit 0) or false (exit 1).");
        any_whole(app, "--id", arguments_.lease.id, "outbox_id")->required();
        app->add_option("--worker", arguments_.lease.worker, "who claimed it")->required();
        return app;
    }

    void add_lease() {
        LeaseArguments& lease = arguments_.lease;
        App* parent = root_.add_subcommand("lease", "The lease protocol from the shell");
        parent->footer(
            "Examples:\n  deliverd lease enqueue --space notes --payload 'hello'\n"
            "  deliverd lease claim --worker me --limit 1\n  deliverd lease ack --id 1 --worker me --memory-id m-1");

        App* app = lease_command(parent, Action::lease_enqueue, "enqueue", "Store a memory; prints its id",
                                 "  deliverd lease enqueue --space notes --payload 'hello' --item-id 7\n"
                                 "  deliverd lease enqueue --space notes --payload @note.md\n"
                                 "  generate | deliverd lease enqueue --space notes --payload @-");
        app->add_option("--space", lease.space, "target_space")->required();
        app->add_option("--payload", lease.payload, "text, or @FILE, or @- for standard input; @@me is the text @me")
            ->required();
        any_whole(app, "--item-id", lease.item_id, "your own number for it");

        app = lease_command(parent, Action::lease_claim, "claim", "Take due rows; prints a JSON object a row",
                            "  deliverd lease claim --worker me --limit 10 --lease-seconds 60");
        app->add_option("--worker", lease.worker, "who takes them")->required();
        whole(app, "--limit", lease.limit, 1, std::numeric_limits<std::int32_t>::max(), "at most so many")
            ->default_str(std::to_string(lease.limit));
        seconds(app, "--lease-seconds", lease.lease_seconds, kMostLeaseSeconds, "rows locked longer ago are free again")
            ->default_str(fmt::format("{}", lease.lease_seconds));

        app = settling(parent, Action::lease_ack, "ack", "It was sent", "  deliverd lease ack --id 1 --worker me");
        app->add_option("--memory-id", lease.memory_id, "what the receiver calls it");

        app = settling(parent, Action::lease_fail, "fail", "It failed; try again at a time you name",
                       "  deliverd lease fail --id 1 --worker me --error '503' --next-attempt-at "
                       "2026-02-20T10:30:00Z");
        app->add_option("--error", lease.error, "kept as last_error")->required();
        app->add_option("--next-attempt-at", lease.next_attempt_at, "RFC 3339, with Z or an offset")->required();

        app = settling(parent, Action::lease_dead, "dead", "Give it up",
                       "  deliverd lease dead --id 1 --worker me --error 'no such space'");
        app->add_option("--error", lease.error, "kept as last_error")->required();

        settling(parent, Action::lease_renew, "renew", "Start its lease anew",
                 "  deliverd lease renew --id 1 --worker me");

        app =
            lease_command(parent, Action::lease_dedup, "dedup", "Was this payload sent already? A JSON object or null",
                          "  deliverd lease dedup --space notes --sha \"$(printf hello | sha256sum | cut -d' ' -f1)\"");
        app->add_option("--space", lease.space, "target_space")->required();
        app->add_option("--sha", lease.sha, "SHA-256 of the payload, hex")->required();

        app = lease_command(parent, Action::lease_show, "show", "One row as JSON", "  deliverd lease show --id 1");
        any_whole(app, "--id", lease.id, "outbox_id")->required();
    }

    void add_orders() {
        OrdersArguments& orders = arguments_.orders;
        App* parent = root_.add_subcommand("orders", "The order outbox from the shell");
        parent->footer(
            "Examples:\n  deliverd orders submit --file order.json\n  deliverd orders show order-2026-0001\n"
            "  deliverd orders list --status dead");

        App* app =
            command(parent, Action::orders_submit, "submit", "Store an order, as POST /api/v1/orders does",
                    "  deliverd orders submit --file order.json\n  make-order | deliverd orders submit --file -\n"
                    "The same order twice is stored once; prints the answer as JSON.");
        with_config(app);
        with_json(app, "accepted; the answer is JSON anyway");
        app->add_option("--file", orders.file, "the order as JSON; - is standard input")->required()->type_name("FILE");

        app = command(parent, Action::orders_show, "show", "One order with its audit trail, as JSON",
                      "  deliverd orders show order-2026-0001");
        with_config(app);
        with_json(app, "accepted; the answer is JSON anyway");
        app->add_option("key", orders.key, "its idempotency_key")->required()->type_name("KEY");

        app = command(parent, Action::orders_list, "list", "Orders, newest first",
                      "  deliverd orders list --status dead\n  deliverd orders list --limit 1000 --json");
        with_config(app);
        with_json(app, "an array of objects");
        app->add_option("--status", orders.status, "only these")
            ->check(CLI::IsMember({"queued", "sending", "sent", "failed", "dead"}))
            ->type_name("STATUS");
        whole(app, "--limit", orders.limit, 1, 1'000'000, "at most so many")->default_str(std::to_string(orders.limit));
    }

    void add_tools() {
        App* migrate = command(&root_, Action::migrate, "migrate", "Create or upgrade the schema",
                               "  deliverd migrate --database postgres://app@db/app\n"
                               "  deliverd migrate --dry-run > upgrade.sql");
        with_config(migrate);
        with_json(migrate, "an array of the steps");
        migrate->add_flag("--dry-run", arguments_.dry_run, "print the SQL, change nothing");

        App* config = root_.add_subcommand("config", "Look at the configuration");
        config->footer("Examples:\n  deliverd config check\n  deliverd config show --json");
        App* check = command(config, Action::config_check, "check", "Validate: every problem, with its line",
                             "  deliverd config check --config deliverd.yaml");
        with_config(check);
        with_json(check, "an object: source, ok, lanes, problems");
        App* show = command(config, Action::config_show, "show", "The values in force and where each came from",
                            "  deliverd config show\n  deliverd config show --json");
        with_config(show);
        with_json(show, "an array of objects");
        command(config, Action::config_docs, "docs", "The settings as Markdown", "  deliverd config docs");

        App* token = root_.add_subcommand("token", "Tokens for the API");
        token->footer("Examples:\n  deliverd token new --name ops --role operator");
        App* fresh = command(token, Action::token_new, "new", "Make a random token and its line for the configuration",
                             "  deliverd token new --name ops --role operator\n"
                             "  deliverd token new --name orders-team --role operator --topic 'orders.*'\n"
                             "The token is shown this once; the configuration has only its SHA-256.");
        with_json(fresh, "an object: token, name, role, sha256, with --topic also topics");
        fresh->add_option("--name", arguments_.token.name, "who it is for: stands in logs and in the audit")
            ->required();
        fresh->add_option("--role", arguments_.token.role, "viewer, operator or admin")
            ->required()
            ->check(CLI::IsMember({"viewer", "operator", "admin"}))
            ->type_name("ROLE");
        fresh
            ->add_option("--topic", arguments_.token.topics,
                         "a topic it may see and act on, a name or a pattern with * and ?; may be repeated")
            ->type_name("PATTERN")
            ->expected(1)
            ->take_all();

        App* doctor = command(&root_, Action::doctor, "doctor",
                              "Check configuration, database, schema, sinks and the brokers of dead letters",
                              "  deliverd doctor\n  deliverd doctor --json");
        with_config(doctor);
        with_json(doctor, "an array of findings");

        App* bench =
            command(&root_, Action::bench, "bench", "Measure a lane with a sink that does nothing",
                    "  deliverd bench --database postgres:///scratch --rows 200000\n"
                    "Without a database it makes a throw-away SQLite file. Otherwise the outbox table must be empty,\n"
                    "and its rows are removed at the end; --existing works off those that are there, and leaves them.");
        with_config(bench);
        whole(bench, "--rows", arguments_.bench.rows, 1, 100'000'000, "how many")
            ->default_str(std::to_string(arguments_.bench.rows));
        whole(bench, "--batch-size", arguments_.bench.batch_size, 1, 10000, "rows a claim and a settle")
            ->default_str(std::to_string(arguments_.bench.batch_size));
        bench->add_flag("--existing", arguments_.bench.existing, "work off the pending rows that are there");
        bench->add_option("--json", arguments_.bench.json_file, "also write the figures there")->type_name("FILE");
    }

    /// The command the words led to, as deep as they went.
    App* deepest() {
        App* app = &root_;
        while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
        return app;
    }

    /// A message about the first word nobody knows, with the nearest right one.
    std::optional<std::string> unknown_word() {
        App* app = deepest();
        std::vector<std::string> left;
        for (App* at = app; at != nullptr && left.empty(); at = at->get_parent()) left = at->remaining(false);
        if (left.empty()) return std::nullopt;
        const auto flag = std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
        const bool is_flag = flag != left.end();
        const std::string word = is_flag ? flag->substr(0, flag->find('=')) : left.front();
        std::vector<std::string> known;
        if (is_flag) {
            for (const CLI::Option* option : app->get_options()) {
                for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
            }
        } else {
            for (const App* sub : app->get_subcommands([](const App*) { return true; })) {
                if (!sub->get_group().empty()) known.push_back(sub->get_name());
            }
        }
        const std::vector<std::string_view> views(known.begin(), known.end());
        const auto meant = meant_by(word, views);
        const std::string where = full_name(app);
        const std::string what = is_flag ? "flag" : known.empty() ? "word" : "command";
        return fmt::format("unknown {} \"{}\"{}; {}", what, word, app == &root_ ? "" : fmt::format(" for {}", where),
                           meant ? fmt::format("did you mean \"{}\"?", *meant) : fmt::format("try `{} --help`", where));
    }

    /// `enq` is too far from `enqueue` for nearest(), and yet nothing else begins with it.
    static std::optional<std::string_view> meant_by(std::string_view word, std::span<const std::string_view> known) {
        const auto begins = [word](std::string_view name) { return name.starts_with(word); };
        if (std::ranges::count_if(known, begins) == 1) return *std::ranges::find_if(known, begins);
        return nearest(word, known);
    }

    /// A flag without its value, or given twice.
    std::string wrong_count(const CLI::ArgumentMismatch& error) {
        for (const CLI::Option* option : deepest()->get_options()) {
            if (option->get_expected_max() == 1 && option->count() > 1) {
                return fmt::format("{} is there {} times; give it once", option->get_name(), option->count());
            }
        }
        const std::string_view text = error.what();
        return fmt::format("{} needs a value", text.substr(0, text.find(':')));
    }

    /// `--json=x`: numbers are read by bounded(), so that only flags are left to CLI11's own conversions.
    static std::string value_of_a_flag(const CLI::ConversionError& error) {
        const std::string_view text = error.what();
        const std::string_view rest = text.substr(std::min(text.find('-'), text.size()));
        return fmt::format("{} takes no value", rest.substr(0, rest.find(' ')));
    }

    static std::string full_name(const App* app) {
        return app->get_parent() == nullptr ? app->get_name() : full_name(app->get_parent()) + " " + app->get_name();
    }

    ParsedCommandLine told(const CLI::Success& wanted) {
        if (wanted.get_name() == "CallForVersion") return {std::nullopt, 0, std::string(wanted.what()) + "\n", {}};
        App* app = deepest();
        const std::string before = app->get_parent() == nullptr ? std::string() : full_name(app->get_parent());
        return {std::nullopt, 0, app->help(before), {}};
    }

    static ParsedCommandLine wrong(std::string message) { return {std::nullopt, 2, {}, std::move(message)}; }

    ParsedCommandLine finished() {
        App* app = deepest();
        const auto found = std::ranges::find(actions_, app, &std::pair<App*, Action>::first);
        if (found == actions_.end()) return wrong(fmt::format("which command? try `{} --help`", full_name(app)));
        arguments_.action = found->second;
        const CLI::Option* worker_name = app->get_option_no_throw("--worker");
        if (worker_name != nullptr && arguments_.lease.worker.empty()) return wrong("--worker must not be empty");
        if (arguments_.action == Action::worker) {
            const WorkerArguments& worker = arguments_.worker;
            if (worker.once == worker.loop) return wrong("worker needs either --once or --loop");
            if (worker.worker_id && worker.worker_id->empty()) return wrong("--worker-id must not be empty");
            for (ConfigOverride& override : arguments_.config.overrides) {
                override.path = fmt::format("lanes.{}.{}", worker.lane, override.path);
            }
        }
        return {arguments_, 0, {}, {}};
    }

    Arguments arguments_;
    App root_;
    std::vector<std::pair<App*, Action>> actions_;
};

}  // namespace

ParsedCommandLine parse_command_line(std::span<const std::string> words) {
    return CommandTree().parse(words);
}

std::string_view version() {
    return DELIVERD_VERSION;
}

}  // namespace deliverd::app
