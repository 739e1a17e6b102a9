#include <fmt/format.h>

#include <algorithm>

#include "app/command.h"
#include "app/dead_letter_unit.h"
#include "app/parts.h"
#include "app/spool_returns.h"
#include "app/stop_signals.h"
#include "base/json_object.h"
#include "base/text.h"
#include "base/uuid.h"
#include "deadletter/letter_json.h"
#include "deadletter/retry_rules.h"

namespace deliverd::app {

namespace {

constexpr std::int32_t kPage = 100;  // letters read at once: their payloads may be large
constexpr std::int32_t kMaxAuditLines = 1000;
constexpr std::size_t kMaxShownError = 60;
constexpr std::int32_t kPurgePiece = 500;  // deleted in one transaction

Failure wrong(std::string_view flag, std::string_view must, const std::string& value) {
    return permanent("bad_argument", fmt::format("{} must be {}, not \"{}\"", flag, must, one_line(value)));
}

Result<std::optional<WallTime>> time_of(std::string_view flag, const std::optional<std::string>& text) {
    if (!text) return std::nullopt;
    const auto time = parse_rfc3339(*text);
    if (!time) return wrong(flag, "a time such as 2026-02-20T10:30:00Z", *text);
    return time;
}

bool has_filters(const store::LetterQuery& query) {
    return query.topic || query.source || query.error_class || query.text || query.key || query.status || query.from ||
           query.until;
}

Result<store::LetterQuery> query_of(const DlqArguments& arguments) {
    store::LetterQuery query;
    query.topic = arguments.topic;
    query.source = arguments.source;
    query.error_class = arguments.error_class;
    query.text = arguments.text;
    query.key = arguments.key;
    if (query.source && !store::is_letter_source(*query.source)) {
        return wrong("--source", "kafka, lane:NAME or spool:NAME", *query.source);
    }
    if (arguments.status) {
        query.status = store::letter_status(*arguments.status);
        if (!query.status) return wrong("--status", "one of PENDING, RETRYING, RESOLVED, DEAD", *arguments.status);
    }
    const auto from = time_of("--from", arguments.from);
    if (!from) return tl::unexpected(from.error());
    const auto until = time_of("--until", arguments.until);
    if (!until) return tl::unexpected(until.error());
    query.from = *from;
    query.until = *until;
    return query;
}

/// One command on an open database.
class DlqCommand {
public:
    DlqCommand(const Context& context, const Config& config, const Arguments& arguments, store::Database& database,
               DeadLetterUnit& unit)
        : context_(context),
          arguments_(arguments.dlq),
          json_(arguments.json),
          pattern_(config.dead_letters.kafka.topic_pattern),
          database_(database),
          letters_(unit.letters()),
          manager_(unit.manager()) {}

    int run(Action action) {
        switch (action) {
            case Action::dlq_list:
                return list();
            case Action::dlq_stats:
                return stats();
            case Action::dlq_retry_all:
                return retry_all();
            case Action::dlq_purge:
                return purge();
            default:
                break;
        }
        const std::string id = canonical_uuid(arguments_.id);
        if (id.empty())
            return complain(context_, kWrongUsage, fmt::format("invalid message id: {}", one_line(arguments_.id)));
        switch (action) {
            case Action::dlq_show:
                return arguments_.audit ? audit(id) : show(id);
            case Action::dlq_retry:
                return retry(id);
            case Action::dlq_dead:
                return mark_dead(id);
            case Action::dlq_revive:
                return revive(id);
            default:
                return remove(id);
        }
    }

private:
    int list() {
        auto query = query_of(arguments_);
        if (!query) return complain(context_, query.error());
        std::int32_t left = arguments_.limit;
        bool first = true;
        bool more = false;
        while (true) {
            query->limit = std::min(left, kPage);
            const auto page = letters_.list(*query);
            if (!page) return complain(context_, page.error());
            print(page->letters, first);
            first = first && page->letters.empty();
            left -= static_cast<std::int32_t>(page->letters.size());
            more = page->has_next;
            if (!more || page->letters.empty() || left <= 0) break;
            query->after = store::LetterCursor{page->letters.back().created_at, page->letters.back().id};
        }
        if (json_) {
            context_.out << (first ? "[]\n" : "]\n");
        } else if (first) {
            context_.out << (has_filters(*query) ? "no dead letters like that\n" : "no dead letters\n");
        } else if (more) {
            context_.out << "older ones follow: --limit N shows more\n";
        }
        return kDone;
    }

    void print(const std::vector<store::Letter>& letters, bool first) {
        for (const store::Letter& letter : letters) {
            if (json_) {
                context_.out << (first ? "[" : ",\n ") << deadletter::row_json(letter);
            } else {
                if (first) print_row("id", "status", "retries", "created_at", "topic", "error_message");
                print_row(letter.id, store::to_string(letter.status),
                          fmt::format("{}/{}", letter.retry_count, letter.max_retries),
                          rfc3339_offset(letter.created_at),
                          one_line(letter.topic.value_or(letter.provenance.original_topic)),
                          shorten(one_line(letter.provenance.error_message), kMaxShownError));
            }
            first = false;
        }
    }

    void print_row(std::string_view id, std::string_view status, std::string_view retries, std::string_view created,
                   std::string_view topic, std::string_view error) {
        context_.out << fmt::format("{:<36}  {:<8}  {:>7}  {:<29}  {:<24}  {}\n", id, status, retries, created, topic,
                                    error);
    }

    int unknown(const std::string& id) {
        return complain(context_, kFailed, fmt::format("no dead letter {} in {}", id, database_.describe()));
    }

    int show(const std::string& id) {
        const auto letter = letters_.find(id);
        if (!letter) return complain(context_, letter.error());
        if (!*letter) return unknown(id);
        context_.out << (arguments_.raw ? deadletter::raw_json(**letter) : deadletter::detail_json(**letter, pattern_))
                     << "\n";
        return kDone;
    }

    int audit(const std::string& id) {
        const auto lines = letters_.audit(id, kMaxAuditLines);
        if (!lines) return complain(context_, lines.error());
        if (lines->empty()) {
            const auto letter = letters_.find(id);
            if (!letter) return complain(context_, letter.error());
            if (!*letter) return unknown(id);
        }
        context_.out << deadletter::audit_json(*lines) << "\n";
        return kDone;
    }

    void say(const std::string& id, store::LetterStatus status, std::string_view message) {
        if (!json_) {
            context_.out << fmt::format("{} {}: {}\n", id, store::to_string(status), one_line(message));
            return;
        }
        JsonObject object;
        object.text("id", id);
        object.text("status", store::to_string(status));
        object.text("message", message);
        context_.out << object.done() << "\n";
    }

    int retry(const std::string& id) {
        const deadletter::RetryReport report = manager_.retry(id, cli_actor());
        if (report.answer == deadletter::RetryAnswer::not_found) return unknown(id);
        if (report.answer != deadletter::RetryAnswer::resolved) return complain(context_, kFailed, report.message);
        say(id, store::LetterStatus::resolved, report.message);
        return kDone;
    }

    /// Where it goes, before it goes: a header of each record named that.
    Result<void> show_plan() {
        const auto planned = manager_.plan(*arguments_.topic);
        if (!planned) return tl::unexpected(planned.error());
        for (const auto& [destination, refused] : *planned) {
            const bool to_topic = destination.source == "kafka";
            if (to_topic && pattern_.empty()) continue;  // nothing is published
            context_.err << fmt::format(
                "{} to {}{}{}\n", destination.letters,
                to_topic ? "topic " + one_line(destination.topic) : one_line(destination.source),
                refused.empty() ? "" : ", refused: ", one_line(refused));
        }
        if (planned->size() == static_cast<std::size_t>(deadletter::kMaxPlanned)) {
            context_.err << "and perhaps to more topics, with no more messages each\n";
        }
        return {};
    }

    int retry_all() {
        if (auto shown = show_plan(); !shown) return complain(context_, shown.error());
        const auto report = manager_.retry_all(*arguments_.topic, cli_actor());
        if (!report) return complain(context_, report.error());
        if (report->under_way_elsewhere) {
            return complain(
                context_, kFailed,
                fmt::format("a retry of all messages in topic {} is under way already", one_line(*arguments_.topic)));
        }
        const store::Redrive& redrive = report->redrive;
        if (json_) {
            JsonObject object;
            object.text("topic", *arguments_.topic);
            object.number("retried", redrive.published);
            object.number("failed", redrive.failed);
            object.number("in_doubt", redrive.in_doubt);
            object.number("taken_over", redrive.taken_over);
            object.number("not_tried", report->not_tried);
            context_.out << object.done() << "\n";
        } else {
            context_.out << redrive.published << "\n";
        }
        if (!report->problem.empty()) {
            return complain(context_, kFailed, fmt::format("not all: {}", deadletter::how_it_ended(*report)));
        }
        if (report->not_tried > 0) {
            context_.err << fmt::format("{} were not tried: {}\n", report->not_tried,
                                        one_line(report->not_tried_reason));
        }
        if (redrive.failed + redrive.in_doubt == 0) return kDone;
        return complain(
            context_, kFailed,
            fmt::format("{} failed, {} in doubt (they may have been published); `deliverd dlq list --status "
                        "RETRYING` shows them",
                        redrive.failed, redrive.in_doubt));
    }

    int mark_dead(const std::string& id) {
        const auto before = letters_.mark_dead(id, cli_actor());
        if (!before) return complain(context_, before.error());
        if (!*before) return unknown(id);
        const auto after = letters_.find(id);
        if (!after) return complain(context_, after.error());
        const bool was_open =
            (*before)->status == store::LetterStatus::pending || (*before)->status == store::LetterStatus::retrying;
        if (!was_open || !*after || (*after)->letter.status != store::LetterStatus::dead) {
            return complain(context_, kFailed,
                            fmt::format("{} cannot be marked as dead: {}", id,
                                        was_open ? "a retry of it is under way"
                                                 : fmt::format("it is {}", store::to_string((*before)->status))));
        }
        say(id, store::LetterStatus::dead, "message marked as dead");
        return kDone;
    }

    int revive(const std::string& id) {
        const auto before = letters_.revive(id, cli_actor());
        if (!before) return complain(context_, before.error());
        if (!*before) return unknown(id);
        if (const std::string why = deadletter::not_revivable_reason(**before); !why.empty()) {
            return complain(context_, kFailed, fmt::format("{} cannot be revived: {}", id, why));
        }
        say(id, store::LetterStatus::pending, deadletter::kRevived);
        return kDone;
    }

    int remove(const std::string& id) {
        const auto removed = letters_.remove(id, cli_actor());
        if (!removed) return complain(context_, removed.error());
        if (*removed == store::Removal::unknown) return unknown(id);
        if (*removed == store::Removal::under_way) {
            return complain(context_, kFailed, fmt::format("{} cannot be deleted: a retry of it is under way", id));
        }
        if (json_) {
            context_.out << fmt::format(R"({{"success":true,"message":"message {} deleted"}})", id) << "\n";
        } else {
            context_.out << fmt::format("message {} deleted\n", id);
        }
        return kDone;
    }

    int purge() {
        const auto query = query_of(arguments_);
        if (!query) return complain(context_, query.error());
        const auto age = from_seconds(arguments_.older_than_seconds);
        std::int64_t purged = 0;
        int empty = 0;  // the first may only say that the end was reached, not that nothing was left before it
        while (empty < 2) {
            const auto gone = letters_.purge(*query->status, age, kPurgePiece, cli_actor());
            if (!gone) {
                return complain(context_, kFailed, fmt::format("{} deleted, then: {}", purged, gone.error().message));
            }
            purged += *gone;
            empty = *gone == 0 ? empty + 1 : 0;
        }
        if (json_) {
            context_.out << fmt::format(R"({{"purged":{}}})", purged) << "\n";
        } else {
            context_.out << purged << "\n";
        }
        return kDone;
    }

    int stats() {
        const auto topics = letters_.topics();
        if (!topics) return complain(context_, topics.error());
        if (json_) {
            JsonArray array;
            for (const store::TopicCounts& topic : *topics) array.raw(deadletter::topic_json(topic));
            context_.out << array.done() << "\n";
            return kDone;
        }
        if (topics->empty()) {
            context_.out << "no dead letters\n";
            return kDone;
        }
        const auto print = [this](const std::string& topic, const std::string& source, const auto& pending,
                                  const auto& retrying, const auto& resolved, const auto& dead,
                                  const std::string& newest) {
            context_.out << fmt::format("{:<32}  {:<14}{:>10}{:>10}{:>10}{:>10}  {}\n", topic, source, pending,
                                        retrying, resolved, dead, newest);
        };
        print("topic", "source", "PENDING", "RETRYING", "RESOLVED", "DEAD", "newest_at");
        for (const store::TopicCounts& topic : *topics) {
            print(one_line(topic.topic), one_line(topic.source), topic.pending, topic.retrying, topic.resolved,
                  topic.dead, rfc3339_offset(topic.newest_at));
        }
        return kDone;
    }

    const Context& context_;
    const DlqArguments& arguments_;
    const bool json_;
    const std::string pattern_;
    store::Database& database_;
    store::DeadLetters& letters_;
    deadletter::Manager& manager_;
};

}  // namespace

int run_dlq(const Context& context, const Config& config, const Arguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    if (const auto there = require_existing(config.database); !there) return complain(context, there.error());
    auto database = open_ready_database(config.database, *log);
    if (!database) return complain(context, database.error());
    // Only a retry speaks to Kafka: looking must not wait for it.
    const bool publishes = arguments.action == Action::dlq_retry || arguments.action == Action::dlq_retry_all;
    DeadLettersConfig wanted = config.dead_letters;
    if (!publishes) wanted.kafka.brokers.clear();
    SpoolReturns spools(config.spools);
    std::optional<StopSignals> signals;
    if (arguments.action == Action::dlq_retry_all) signals.emplace();
    auto unit = DeadLetterUnit::make(wanted, **database, &spools, *log, WhenStopped::end_redrives);
    if (!unit) return complain(context, unit.error());
    if (signals) {
        signals->on_signal(1, [&manager = (*unit)->manager(), &context] {
            context.err << "stopping: what is under way is brought to its end\n" << std::flush;
            manager.close();
        });
    }
    const int status = DlqCommand(context, config, arguments, **database, **unit).run(arguments.action);
    if (signals) signals->clear_actions();
    return status;
}

}  // namespace deliverd::app
