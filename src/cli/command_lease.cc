#include <fmt/format.h>

#include <boost/json.hpp>
#include <limits>

#include "base/text.h"
#include "cli/command_input.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "daemon/parts.h"

namespace deliverd::cli {

namespace {

struct LeaseArguments {
    std::int64_t id = 0;
    std::string worker;
    std::string space;
    std::string payload;
    std::optional<std::int64_t> item_id;
    std::int32_t limit = kDefaultClaimLimit;
    double lease_seconds = kDefaultLeaseSeconds;
    std::optional<std::string> memory_id;
    std::string error;
    std::string next_attempt_at;
    std::string sha;
};

boost::json::value or_null(const std::optional<std::string>& text) {
    return text ? boost::json::value(*text) : boost::json::value(nullptr);
}

boost::json::object to_json(const MemoryRow& row) {
    return {{"outbox_id", row.outbox_id},
            {"item_id", row.item_id ? boost::json::value(*row.item_id) : boost::json::value(nullptr)},
            {"target_space", row.target_space},
            {"payload_md", row.payload_md},
            {"payload_sha", row.payload_sha},
            {"status", row.status},
            {"retry_count", row.retry_count},
            {"next_attempt_at", row.next_attempt_at},
            {"locked_at", or_null(row.locked_at)},
            {"locked_by", or_null(row.locked_by)},
            {"last_error", or_null(row.last_error)},
            {"created_at", row.created_at},
            {"updated_at", row.updated_at}};
}

/// The digest as the table has it, in lower case; none when it is not one.
std::optional<std::string> sha256_digest(std::string_view text) {
    constexpr std::size_t kHexDigits = 64;
    if (text.size() != kHexDigits || !std::ranges::all_of(text, [](char c) { return hex_value(c).has_value(); }))
        return std::nullopt;
    return ascii_lower(text);
}

/// The lease commands on an open database.
class LeaseCommand {
public:
    LeaseCommand(const Call& call, const LeaseArguments& arguments, const store::Database& database, Lease& lease)
        : context_(call.context), arguments_(arguments), call_(call), database_(database), lease_(lease) {}

    int ack() { return settled(lease_.ack_sent(arguments_.id, arguments_.worker, arguments_.memory_id)); }
    int dead() { return settled(lease_.mark_dead_by_worker(arguments_.id, arguments_.worker, arguments_.error)); }
    int renew() { return settled(lease_.renew_lease(arguments_.id, arguments_.worker)); }

    int enqueue() {
        const config::DatabaseConfig& target = call_.config().database;
        const std::int64_t most = target.kind == config::DatabaseTarget::Kind::sqlite
                                      ? target.sqlite.max_payload_bytes
                                      : target.postgres.max_payload_bytes;
        const auto text =
            text_or_input(context_, "--payload", arguments_.payload, most, "lanes.NAME.max_payload_bytes");
        if (!text) return complain(context_, text.error());
        const auto id = lease_.enqueue_memory(arguments_.space, *text, arguments_.item_id, most);
        if (!id) return complain(context_, id.error());
        context_.out << *id << "\n";
        return kDone;
    }

    int claim() {
        const auto rows = lease_.claim_outbox(arguments_.worker, arguments_.limit, arguments_.lease_seconds);
        if (!rows) return complain(context_, rows.error());
        boost::json::array array;
        for (const MemoryRow& row : *rows) array.push_back(to_json(row));
        if (call_.json) {
            context_.out << boost::json::serialize(array) << "\n";
        } else {
            for (const boost::json::value& row : array) context_.out << boost::json::serialize(row) << "\n";
        }
        return kDone;
    }

    int fail() {
        if (!parse_rfc3339(arguments_.next_attempt_at)) {
            return complain(context_, kWrongUsage,
                            fmt::format("--next-attempt-at \"{}\" is not an RFC 3339 time; write it as "
                                        "2026-02-20T10:30:00Z",
                                        arguments_.next_attempt_at));
        }
        return settled(
            lease_.fail_retry(arguments_.id, arguments_.worker, arguments_.error, arguments_.next_attempt_at));
    }

    int dedup() {
        const auto sha = sha256_digest(arguments_.sha);
        if (!sha) {
            return complain(
                context_, kWrongUsage,
                fmt::format("--sha \"{}\" is not a SHA-256 digest: it has 64 hexadecimal digits", arguments_.sha));
        }
        const auto hit = lease_.check_dedup(arguments_.space, *sha);
        if (!hit) return complain(context_, hit.error());
        if (!*hit) {
            context_.out << "null\n";
            return kDone;
        }
        const boost::json::object found{{"outbox_id", (*hit)->outbox_id}, {"memory_id", or_null((*hit)->memory_id)}};
        context_.out << boost::json::serialize(found) << "\n";
        return kDone;
    }

    int show() {
        const auto row = lease_.show(arguments_.id);
        if (!row) return complain(context_, row.error());
        if (!*row) {
            return complain(context_, kFailed,
                            fmt::format("no row {} in outbox_memory of {}", arguments_.id, database_.describe()));
        }
        context_.out << boost::json::serialize(to_json(**row)) << "\n";
        return kDone;
    }

private:
    int settled(const Result<bool>& answer) {
        if (!answer) return complain(context_, answer.error());
        context_.out << (*answer ? "true\n" : "false\n");
        return *answer ? kDone : kFailed;
    }

    const Context& context_;
    const LeaseArguments& arguments_;
    const Call& call_;
    const store::Database& database_;
    Lease& lease_;
};

using Method = int (LeaseCommand::*)();

/// Runs `method` on the configuration's database.
CommandTree::Run on_lease(std::shared_ptr<const LeaseArguments> arguments, Method method,
                          MissingFile missing = MissingFile::refuse) {
    return [arguments = std::move(arguments), method, missing](const Call& call) {
        return with_database(call, missing, [&](store::Database& database, Log&) {
            const auto lease = database.lease(daemon::cli_actor());
            if (!lease) return complain(call.context, lease.error());
            LeaseCommand command(call, *arguments, database, **lease);
            return (command.*method)();
        });
    };
}

void add_worker_option(CLI::App* app, std::string& worker, const char* about) {
    app->add_option("--worker", worker, about)->required();
    app->callback([&worker] {
        if (worker.empty()) throw CLI::ValidationError("--worker must not be empty");
    });
}

}  // namespace

void add_lease(CommandTree& tree) {
    constexpr const char* kAlwaysJson = "accepted; the answer is JSON anyway";
    const auto lease = std::make_shared<LeaseArguments>();
    CLI::App* group = tree.group("lease", "Use the lease protocol from the shell",
                                 "Examples:\n  deliverd lease enqueue --space notes --payload 'hello'\n"
                                 "  deliverd lease claim --worker me --limit 1\n"
                                 "  deliverd lease ack 1 --worker me --memory-id m-1");
    const auto add = [&](CommandTree::Help help, Method method, MissingFile missing = MissingFile::refuse) {
        if (help.json == nullptr) help.json = kAlwaysJson;
        return tree.add(group, help, on_lease(lease, method, missing));
    };

    CLI::App* app = add({"enqueue", "Store a memory and print its id",
                         "  deliverd lease enqueue --space notes --payload 'hello' --item-id 7\n"
                         "  deliverd lease enqueue --space notes --payload @note.md\n"
                         "  generate | deliverd lease enqueue --space notes --payload -"},
                        &LeaseCommand::enqueue, MissingFile::create);
    app->add_option("--space", lease->space, "target_space")->required();
    app->add_option("--payload", lease->payload, "a text, or @FILE, or - for standard input; @@me is the text @me")
        ->required();
    any_whole(app, "--item-id", lease->item_id, "your own number for it");

    app = add({"claim", "Claim due rows and print one JSON object per row",
               "  deliverd lease claim --worker me --limit 10 --lease-seconds 60", "one array of all rows"},
              &LeaseCommand::claim);
    add_worker_option(app, lease->worker, "who claims them");
    whole(app, "--limit", lease->limit, 1, std::numeric_limits<std::int32_t>::max(), "rows at most")
        ->default_str(std::to_string(lease->limit));
    seconds(app, "--lease-seconds", lease->lease_seconds, kMostLeaseSeconds, "rows claimed longer ago are free again")
        ->default_str(fmt::format("{}", lease->lease_seconds));

    // The four that settle name a row and the worker that holds it.
    const auto add_settling = [&](const char* name, const char* about, const std::string& examples, Method method) {
        CLI::App* settling =
            add({name, about, examples + "\nPrints true (exit 0) or false (exit 1).", kAlwaysJson}, method);
        row_id(settling, lease->id, "outbox_id");
        add_worker_option(settling, lease->worker, "who claimed it");
        return settling;
    };
    app = add_settling("ack", "Record that a row was sent", "  deliverd lease ack 1 --worker me", &LeaseCommand::ack);
    app->add_option("--memory-id", lease->memory_id, "the receiver's id for it");
    app = add_settling("fail", "Record a failure; the row is tried again at the given time",
                       "  deliverd lease fail 1 --worker me --error '503' --next-attempt-at 2026-02-20T10:30:00Z",
                       &LeaseCommand::fail);
    app->add_option("--error", lease->error, "kept as last_error")->required();
    app->add_option("--next-attempt-at", lease->next_attempt_at, "RFC 3339, with Z or an offset")->required();
    app = add_settling("dead", "Give a row up", "  deliverd lease dead 1 --worker me --error 'no such space'",
                       &LeaseCommand::dead);
    app->add_option("--error", lease->error, "kept as last_error")->required();
    add_settling("renew", "Restart the lease of a row", "  deliverd lease renew 1 --worker me", &LeaseCommand::renew);

    app = add({"dedup", "Look up whether a payload was sent before; prints a JSON object or null",
               "  deliverd lease dedup --space notes --sha \"$(printf hello | sha256sum | cut -d' ' -f1)\""},
              &LeaseCommand::dedup);
    app->add_option("--space", lease->space, "target_space")->required();
    app->add_option("--sha", lease->sha, "SHA-256 of the payload, hex")->required();

    app = add({"show", "Show one row as JSON", "  deliverd lease show 1"}, &LeaseCommand::show);
    row_id(app, lease->id, "outbox_id");
}

}  // namespace deliverd::cli
