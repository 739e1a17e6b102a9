// `deliverd spool import`: a whole file into the dead letters or the event outbox.
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <utility>

#include "app/command.h"
#include "app/parts.h"
#include "app/spool_letters.h"
#include "base/failpoint.h"
#include "base/json_object.h"
#include "base/text.h"
#include "deliverd/spool.h"

namespace deliverd::app {

namespace {

constexpr std::size_t kMaxAggregateBytes = 255;
constexpr std::int64_t kMaxToldRefusals = 10;

/// Of the spool that the configuration has for this file, if any.
std::string configured_name(const Config& config, const std::string& path) {
    const std::string address = file_address(path);
    for (const SpoolConfig& spool : config.spools) {
        if (file_address(spool.path) == address) return spool.name;
    }
    return "hook";
}

/// An entry as an event: what it was for travels in the metadata, as headers.
struct EventText {
    std::string key;
    std::string aggregate;
    std::string metadata;
};

EventText event_of(std::string_view spool, const SpoolEntry& entry) {
    EventText text;
    text.key = entry_uuid(spool, entry);
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
    SpoolImport(const Context& context, const Arguments& arguments, std::string name, store::Database& database)
        : context_(context),
          arguments_(arguments.spool),
          json_(arguments.json),
          dry_run_(arguments.dry_run),
          name_(std::move(name)),
          origin_(file_address(arguments_.file)),
          letters_(database.dead_letters()),
          imports_(database.imports()) {}

    int run(Spool& spool) {
        SpoolHandedOver sum;
        if (const auto looked = look(spool, sum); !looked) return complain(context_, looked.error());
        if (!dry_run_) {
            SpoolHandOver order;
            order.wanted = is_open;
            order.take = [this](std::span<const SpoolEntry> entries) { return take(entries); };
            const auto done = spool.hand_over(order);
            if (!done) return complain(context_, done.error());
            sum = *done;
            // The file has none of them any more.
            if (to_events()) {
                if (const auto forgot = imports_->forget(origin_); !forgot) return complain(context_, forgot.error());
            }
        }
        report(sum);
        return sum.refused == 0 ? kDone : kFailed;
    }

private:
    static bool is_open(const SpoolEntry& entry) { return entry.state != SpoolState::resolved; }
    [[nodiscard]] bool to_events() const { return arguments_.to == "events"; }

    /// What there is, and what stays.
    Result<void> look(Spool& spool, SpoolHandedOver& sum) {
        const auto looked = spool.each(
            [&](const SpoolEntry& entry) {
                ++(is_open(entry) ? sum.taken : kept_);
                return true;
            },
            {});
        if (!looked) return Failure(looked.error());
        sum.rejected = looked->rejects;
        return {};
    }

    Result<std::vector<std::size_t>> take(std::span<const SpoolEntry> entries) {
        // No file in the letter: the entry is in none when this is done.
        auto refused = to_events() ? store_events(entries) : store_entries(*letters_, name_, "", entries);
        failpoint("spool.after_store");
        if (!refused) return refused;
        for (const std::size_t number : *refused) {
            if (told_++ >= kMaxToldRefusals) break;
            complain(
                context_, kDone,
                fmt::format("the database cannot hold {}; it stays in the file", one_line(entries[number].job_id)));
        }
        return refused;
    }

    Result<std::vector<std::size_t>> store_events(std::span<const SpoolEntry> entries) {
        std::vector<EventText> texts;
        for (const SpoolEntry& entry : entries) texts.push_back(event_of(name_, entry));
        std::vector<store::ImportedEvent> events;
        std::set<std::string_view> keys;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (keys.insert(texts[i].key).second) events.push_back(event(entries[i], texts[i]));
        }
        const auto stored = imports_->store(origin_, cli_actor(), events);
        if (stored) return std::vector<std::size_t>();
        if (stored.error().error_class != ErrorClass::permanent) return Failure(stored.error());
        std::vector<std::size_t> refused;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            const store::ImportedEvent one = event(entries[i], texts[i]);
            const auto alone = imports_->store(origin_, cli_actor(), std::span(&one, 1));
            if (alone) continue;
            if (alone.error().error_class != ErrorClass::permanent) return Failure(alone.error());
            refused.push_back(i);
        }
        // All of them: it is not the entries' fault.
        if (refused.size() == entries.size() && entries.size() > 1) return Failure(stored.error());
        return refused;
    }

    [[nodiscard]] store::ImportedEvent event(const SpoolEntry& entry, const EventText& text) const {
        return {text.key, text.aggregate, arguments_.type, entry.payload, text.metadata};
    }

    void report(const SpoolHandedOver& sum) {
        if (json_) {
            JsonObject object;
            object.text("to", arguments_.to);
            object.text("name", name_);
            object.number("imported", sum.taken);
            object.number("refused", sum.refused);
            object.number("kept", kept_);
            object.number("rejected", sum.rejected);
            if (dry_run_) object.boolean("dry_run", true);
            context_.out << object.done() << "\n";
            return;
        }
        context_.out << fmt::format(
            "{} {} {}, {} resolved kept\n", sum.taken, dry_run_ ? "would be imported into" : "imported into",
            to_events() ? "the event outbox" : fmt::format("the dead letters of spool:{}", name_), kept_);
        if (sum.rejected == 0) return;
        complain(context_, kDone,
                 fmt::format("{} unreadable {} {} {}.rejected", sum.rejected, sum.rejected == 1 ? "line" : "lines",
                             dry_run_ ? "would be moved to" : "moved to", arguments_.file));
    }

    const Context& context_;
    const SpoolArguments& arguments_;
    const bool json_;
    const bool dry_run_;
    const std::string name_;
    const std::string origin_;
    const std::unique_ptr<store::DeadLetters> letters_;
    const std::unique_ptr<store::Imports> imports_;
    std::int64_t kept_ = 0;
    std::int64_t told_ = 0;
};

}  // namespace

int run_spool_import(const Context& context, const Config& config, const Arguments& arguments) {
    const std::string name = arguments.spool.import_name.value_or(configured_name(config, arguments.spool.file));
    auto spool = open_spool({.path = arguments.spool.file, .name = name});
    if (!spool) return complain(context, spool.error());
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    if (const auto there = require_existing(config.database); !there) return complain(context, there.error());
    auto database = open_ready_database(config.database, *log);
    if (!database) return complain(context, database.error());
    return SpoolImport(context, arguments, name, **database).run(**spool);
}

}  // namespace deliverd::app
