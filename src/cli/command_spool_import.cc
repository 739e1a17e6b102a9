// `deliverd spool import`: a whole file into the dead letters or the event outbox.

#include <filesystem>
#include <set>

#include "base/failpoint.h"
#include "base/json_object.h"
#include "base/text.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"
#include "daemon/spool_letters.h"
#include "deliverd/spool.h"

namespace deliverd::cli {

namespace {

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
            // The same line may stand twice in a file; store() takes no key twice in one call.
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

}  // namespace

void add_spool_import(CommandTree& tree, CLI::App* group) {
    const auto import = std::make_shared<ImportArguments>();
    const CommandTree::Help help{
        "import", "Move a whole file into a database",
        "  deliverd spool import --file hooks.jsonl --to dead-letters --database sqlite:deliverd.db\n"
        "  deliverd spool import --file hooks.jsonl --to events --dry-run\n"
        "Stores every entry that is not resolved, then takes it out of the file: after a kill at any moment, run it\n"
        "again; nothing is stored twice. From the dead letters, `dlq retry` puts an entry back into the spool of that\n"
        "name, if `serve` has one. From the event outbox, a lane of `outbox: events` sends it to the lane's own sink;\n"
        "the endpoint is sent as a header. Exit 1 if the database cannot hold an entry: that entry stays.",
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

}  // namespace deliverd::cli
