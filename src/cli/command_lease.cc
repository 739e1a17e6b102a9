#include "base/json_object.h"
#include "base/text.h"
#include "cli/command_tree.h"
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

std::string to_json(const MemoryRow& row) {
    JsonObject object;
    object.number("outbox_id", row.outbox_id);
    object.number("item_id", row.item_id);
    object.text("target_space", row.target_space);
    object.text("payload_md", row.payload_md);
    object.text("payload_sha", row.payload_sha);
    object.text("status", row.status);
    object.number("retry_count", row.retry_count);
    object.text("next_attempt_at", row.next_attempt_at);
    object.text("locked_at", row.locked_at);
    object.text("locked_by", row.locked_by);
    object.text("last_error", row.last_error);
    object.text("created_at", row.created_at);
    object.text("updated_at", row.updated_at);
    return object.done();
}

/// The digest as the table has it, in lower case; none when it is not one.
std::optional<std::string> sha256_digest(std::string_view text) {
    constexpr std::size_t kHexDigits = 64;
    if (text.size() != kHexDigits || !std::ranges::all_of(text, [](char c) { return hex_value(c).has_value(); }))
        return std::nullopt;
    return ascii_lower(text);
}

using LeaseJob = Job<LeaseArguments, Lease>;

std::int64_t most_bytes(const config::DatabaseConfig& target) {
    return target.is_sqlite() ? target.sqlite.max_payload_bytes : target.postgres.max_payload_bytes;
}

Result<std::string> read_payload(const Call& call, const LeaseArguments& asked) {
    return text_or_input(call.context, "--payload", asked.payload,
                         {most_bytes(call.config().database), "lanes.NAME.max_payload_bytes"});
}

Status enqueue(const LeaseJob& job) {
    TRY_ASSIGN(const auto id, job.port.enqueue_memory(job.asked.space, job.input, job.asked.item_id,
                                                      most_bytes(job.call.config().database)));
    return job.call.print_line(std::to_string(id));
}

Status claim(const LeaseJob& job) {
    // A line per row, so that a shell loop can work row by row; --json is for programs that want one value.
    TRY_ASSIGN(const auto rows, job.port.claim_outbox(job.asked.worker, job.asked.limit, job.asked.lease_seconds));
    JsonArray array;
    for (const MemoryRow& row : rows) {
        if (job.call.json) {
            array.raw(to_json(row));
        } else {
            job.call.print_line(to_json(row));
        }
    }
    return job.call.json ? job.call.print_line(array.done()) : kDone;
}

Status ack(const LeaseJob& job) {
    return job.call.print_truth(job.port.ack_sent(job.asked.id, job.asked.worker, job.asked.memory_id));
}

Status fail(const LeaseJob& job) {
    const LeaseArguments& asked = job.asked;
    // PostgreSQL would also take "tomorrow" and a time without a zone: the two databases must not differ.
    if (!parse_rfc3339(asked.next_attempt_at)) {
        return misused("--next-attempt-at \"{}\" is not an RFC 3339 time; write it as 2026-02-20T10:30:00Z",
                       asked.next_attempt_at);
    }
    return job.call.print_truth(job.port.fail_retry(asked.id, asked.worker, asked.error, asked.next_attempt_at));
}

Status give_up(const LeaseJob& job) {
    return job.call.print_truth(job.port.mark_dead_by_worker(job.asked.id, job.asked.worker, job.asked.error));
}

Status renew(const LeaseJob& job) {
    return job.call.print_truth(job.port.renew_lease(job.asked.id, job.asked.worker));
}

Status dedup(const LeaseJob& job) {
    const auto sha = sha256_digest(job.asked.sha);
    if (!sha) {
        return misused("--sha \"{}\" is not a SHA-256 digest: it has 64 hexadecimal digits", job.asked.sha);
    }
    TRY_ASSIGN(const auto hit, job.port.check_dedup(job.asked.space, *sha));
    if (!hit) return job.call.print_line("null");
    JsonObject object;
    object.number("outbox_id", hit->outbox_id);
    object.text("memory_id", hit->memory_id);
    return job.call.print_line(object.done());
}

Status show(const LeaseJob& job) {
    TRY_ASSIGN(const auto row, job.port.show(job.asked.id));
    if (!row) return failed("no row {} in outbox_memory of {}", job.asked.id, job.database.describe());
    return job.call.print_line(to_json(*row));
}

void add_worker_option(CLI::App* app, std::string& worker, const char* about) {
    app->add_option("--worker", worker, about)->required();
    // CLI11 counts an empty text as given, and nobody could settle a row without an owner.
    app->callback([&worker] {
        if (worker.empty()) throw CLI::ValidationError("--worker must not be empty");
    });
}

}  // namespace

void add_lease(CommandTree& tree) {
    const auto lease = std::make_shared<LeaseArguments>();
    CLI::App* group = tree.group("lease", "Use the lease protocol from the shell",
                                 "Examples:\n  deliverd lease enqueue --space notes --payload 'hello'\n"
                                 "  deliverd lease claim --worker me --limit 1\n"
                                 "  deliverd lease ack 1 --worker me --memory-id m-1");
    const PortCommands<LeaseArguments, Lease> commands{
        tree, group, lease, [](store::Database& database, const Call&) { return database.lease(daemon::cli_actor()); }};

    CLI::App* app = commands.add({"enqueue", "Store a memory and print its id",
                                  "  deliverd lease enqueue --space notes --payload 'hello' --item-id 7\n"
                                  "  deliverd lease enqueue --space notes --payload @note.md\n"
                                  "  generate | deliverd lease enqueue --space notes --payload -",
                                  kAlwaysJson},
                                 enqueue, read_payload);
    app->add_option("--space", lease->space, "target_space")->required();
    app->add_option("--payload", lease->payload, "a text, or @FILE, or - for standard input; @@me is the text @me")
        ->required();
    any_whole(app, "--item-id", lease->item_id, "your own number for it");

    app = commands.add({"claim", "Claim due rows and print one JSON object per row",
                        "  deliverd lease claim --worker me --limit 10 --lease-seconds 60", "one array of all rows"},
                       claim);
    add_worker_option(app, lease->worker, "who claims them");
    whole(app, "--limit", lease->limit, 1, std::numeric_limits<std::int32_t>::max(), "rows at most");
    seconds(app, "--lease-seconds", lease->lease_seconds, kMostLeaseSeconds, "rows claimed longer ago are free again")
        ->default_str(fmt::format("{}", lease->lease_seconds));

    // The four that settle name a row and the worker that holds it.
    const auto add_settling = [&](const char* name, const char* about, const std::string& examples,
                                  Status (*work)(const LeaseJob&)) {
        const std::string more = examples + "\nPrints true (exit 0) or false (exit 1).";
        CLI::App* settling = commands.add({name, about, more, kAlwaysJson}, work);
        row_id(settling, lease->id, "outbox_id");
        add_worker_option(settling, lease->worker, "who claimed it");
        return settling;
    };
    app = add_settling("ack", "Record that a row was sent", "  deliverd lease ack 1 --worker me", ack);
    app->add_option("--memory-id", lease->memory_id, "the receiver's id for it");
    app =
        add_settling("fail", "Record a failure; the row is tried again at the given time",
                     "  deliverd lease fail 1 --worker me --error '503' --next-attempt-at 2026-02-20T10:30:00Z", fail);
    app->add_option("--error", lease->error, "kept as last_error")->required();
    app->add_option("--next-attempt-at", lease->next_attempt_at, "RFC 3339, with Z or an offset")->required();
    app = add_settling("dead", "Mark a row as dead", "  deliverd lease dead 1 --worker me --error 'no such space'",
                       give_up);
    app->add_option("--error", lease->error, "kept as last_error")->required();
    add_settling("renew", "Restart the lease of a row", "  deliverd lease renew 1 --worker me", renew);

    app = commands.add(
        {"dedup", "Look up whether a payload was sent before; prints a JSON object or null",
         "  deliverd lease dedup --space notes --sha \"$(printf hello | sha256sum | cut -d' ' -f1)\"", kAlwaysJson},
        dedup);
    app->add_option("--space", lease->space, "target_space")->required();
    app->add_option("--sha", lease->sha, "SHA-256 of the payload, hex")->required();

    app = commands.add({"show", "Show one row as JSON", "  deliverd lease show 1", kAlwaysJson}, show);
    row_id(app, lease->id, "outbox_id");
}

}  // namespace deliverd::cli
