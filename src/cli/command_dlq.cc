#include <fmt/format.h>

#include <algorithm>

#include "base/json_object.h"
#include "base/text.h"
#include "base/try.h"
#include "base/uuid.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "daemon/dead_letter_unit.h"
#include "daemon/parts.h"
#include "daemon/spool_returns.h"
#include "daemon/stop_signals.h"
#include "deadletter/letter_json.h"
#include "deadletter/retry_rules.h"

namespace deliverd::cli {

namespace {

struct DlqArguments {
    std::string id;
    std::optional<std::string> topic;
    std::optional<std::string> status;
    std::optional<std::string> source;
    std::optional<std::string> error_class;
    std::optional<std::string> text;
    std::optional<std::string> key;
    std::optional<std::string> from;
    std::optional<std::string> until;
    std::int32_t limit = 20;
    double older_than_seconds = 0;
    bool raw = false;
    bool audit = false;
};

constexpr std::int32_t kPage = 100;  // letters per read: their payloads may be large
constexpr std::int32_t kMaxAuditLines = 1000;
constexpr std::size_t kMaxShownError = 60;

Failure wrong(std::string_view flag, std::string_view must, const std::string& value) {
    return bad_argument(fmt::format("{} must be {}, not \"{}\"", flag, must, one_line(value)));
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
    TRY_ASSIGN(const auto from, time_of("--from", arguments.from));
    TRY_ASSIGN(const auto until, time_of("--until", arguments.until));
    query.from = from;
    query.until = until;
    return query;
}

/// The commands on an open database.
class DlqCommand {
public:
    DlqCommand(const Call& call, const DlqArguments& arguments, store::Database& database, daemon::DeadLetterUnit& unit)
        : context_(call.context),
          arguments_(arguments),
          json_(call.json),
          pattern_(call.config().dead_letters.kafka.topic_pattern),
          database_(database),
          letters_(unit.letters()),
          manager_(unit.manager()) {}

    int show_or_audit(const std::string& id) { return arguments_.audit ? audit(id) : show(id); }

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
            context_.out << "there are older ones: --limit N shows more\n";
        }
        return kDone;
    }

    int retry(const std::string& id) {
        const deadletter::RetryReport report = manager_.retry(id, daemon::cli_actor());
        if (report.answer == deadletter::RetryAnswer::not_found) return unknown(id);
        if (report.answer != deadletter::RetryAnswer::resolved) return complain(context_, kFailed, report.message);
        say(id, store::LetterStatus::resolved, report.message);
        return kDone;
    }

    int retry_all() {
        if (auto shown = show_plan(); !shown) return complain(context_, shown.error());
        const auto report = manager_.retry_all(*arguments_.topic, daemon::cli_actor());
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
        return changed(id, manager_.mark_dead(id, daemon::cli_actor()), "marked as dead",
                       [&] { say(id, store::LetterStatus::dead, deadletter::kMarkedDead); });
    }

    int revive(const std::string& id) {
        return changed(id, manager_.revive(id, daemon::cli_actor()), "revived",
                       [&] { say(id, store::LetterStatus::pending, deadletter::kRevived); });
    }

    int remove(const std::string& id) {
        const std::string deleted = fmt::format("message {} deleted", id);
        return changed(id, manager_.remove(id, daemon::cli_actor()), "deleted", [&] {
            context_.out << (json_ ? fmt::format(R"({{"success":true,"message":"{}"}})", deleted) : deleted) << "\n";
        });
    }

    int purge() {
        const auto query = query_of(arguments_);
        if (!query) return complain(context_, query.error());
        const auto age = from_seconds(arguments_.older_than_seconds);
        const deadletter::PurgeReport report = manager_.purge(*query->status, age, std::nullopt, daemon::cli_actor());
        if (report.store_error) {
            return complain(context_, kFailed,
                            fmt::format("{} deleted, then: {}", report.purged, report.store_error->message));
        }
        context_.out << (json_ ? fmt::format(R"({{"purged":{}}})", report.purged) : fmt::format("{}", report.purged))
                     << "\n";
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

private:
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
        context_.out << (json_ ? deadletter::state_json(id, status, message)
                               : fmt::format("{} {}: {}", id, store::to_string(status), one_line(message)))
                     << "\n";
    }

    /// Prints the destinations before anything is sent: a header of each record names them.
    Result<void> show_plan() {
        TRY_ASSIGN(const auto planned, manager_.plan(*arguments_.topic));
        for (const auto& [destination, refused] : planned) {
            const bool to_topic = destination.source == "kafka";
            if (to_topic && pattern_.empty()) continue;  // nothing is published
            context_.err << fmt::format(
                "{} to {}{}{}\n", destination.letters,
                to_topic ? "topic " + one_line(destination.topic) : one_line(destination.source),
                refused.empty() ? "" : ", refused: ", one_line(refused));
        }
        if (planned.size() == static_cast<std::size_t>(deadletter::kMaxPlanned)) {
            context_.err << "and perhaps to other topics with fewer messages\n";
        }
        return {};
    }

    /// Prints what `done` prints when it was done; otherwise why it was not.
    template <typename Done>
    int changed(const std::string& id, const deadletter::ChangeReport& report, std::string_view what, Done done) {
        switch (report.answer) {
            case deadletter::ChangeAnswer::done:
                done();
                return kDone;
            case deadletter::ChangeAnswer::not_found:
                return unknown(id);
            case deadletter::ChangeAnswer::conflict:
                return complain(context_, kFailed, fmt::format("{} cannot be {}: {}", id, what, report.reason));
            case deadletter::ChangeAnswer::unavailable:
                break;
        }
        return complain(context_, report.store_error.value_or(Error{}));
    }

    const Context& context_;
    const DlqArguments& arguments_;
    const bool json_;
    const std::string pattern_;
    store::Database& database_;
    store::DeadLetters& letters_;
    deadletter::Manager& manager_;
};

enum class Publishes { nothing, one, all };

/// Opens what a command needs and runs `work`.
int with_letters(const Call& call, const DlqArguments& arguments, Publishes publishes,
                 const std::function<int(DlqCommand&)>& work) {
    return with_database(call, MissingFile::refuse, [&](store::Database& database, Log& log) {
        config::DeadLettersConfig wanted = call.config().dead_letters;
        if (publishes == Publishes::nothing) wanted.kafka.brokers.clear();  // looking must not wait for Kafka
        daemon::SpoolReturns spools(call.config().spools);
        std::optional<daemon::StopSignals> signals;
        if (publishes == Publishes::all) signals.emplace();
        const auto unit =
            daemon::DeadLetterUnit::make(wanted, database, &spools, log, daemon::WhenStopped::end_redrives);
        if (!unit) return complain(call.context, unit.error());
        if (signals) {
            signals->on_signal(1, [&manager = (*unit)->manager(), &call] {
                call.context.err << "stopping: finishing what is under way\n" << std::flush;
                manager.close();
            });
        }
        DlqCommand command(call, arguments, database, **unit);
        const int status = work(command);
        if (signals) signals->clear_actions();
        return status;
    });
}

constexpr const char* kDlqAbout =
    "A dead letter is a message that a consumer, a lane or a spool gave up on; `deliverd serve` reads the consumers'\n"
    "dead-letter topics. It is PENDING at first. A retry sends it back to where it came from and makes it RESOLVED.\n"
    "After three failed retries, or by hand, it is DEAD.\n"
    "These commands work on the database, and publish to the brokers of the configuration.\n"
    "Examples:\n  deliverd dlq stats                       which topics have some?\n"
    "  deliverd dlq list --topic orders.dlq.v1  what went wrong with them?\n"
    "  deliverd dlq show ID                     this one in full\n"
    "  deliverd dlq retry ID                    send it back; `retry-all TOPIC` all of them";

constexpr double kMostPurgeSeconds = 10.0 * 365 * 86400;

void add_filters(CLI::App* app, DlqArguments& dlq) {
    app->add_option("--topic", dlq.topic, "the dead-letter topic, the original one, or the name of a lane or a spool");
    app->add_option("--status", dlq.status, "PENDING, RETRYING, RESOLVED or DEAD");
    app->add_option("--source", dlq.source, "kafka, lane:NAME or spool:NAME");
    app->add_option("--error-class", dlq.error_class, "the exact class of the exception")->type_name("CLASS");
    app->add_option("--text", dlq.text, "text in the error or the payload, upper or lower case");
    app->add_option("--key", dlq.key, "the exact key of the record");
    app->add_option("--from", dlq.from, "stored at or after; RFC 3339, with Z or an offset")->type_name("TIME");
    app->add_option("--until", dlq.until, "stored before")->type_name("TIME");
}

}  // namespace

void add_dlq(CommandTree& tree) {
    const auto dlq = std::make_shared<DlqArguments>();
    CLI::App* group = tree.group("dlq", "Use the dead letters from the shell", kDlqAbout);
    const auto add = [&](const CommandTree::Help& help, int (DlqCommand::*method)(),
                         Publishes publishes = Publishes::nothing) {
        return tree.add(group, help, [dlq, method, publishes](const Call& call) {
            return with_letters(call, *dlq, publishes, [method](DlqCommand& command) { return (command.*method)(); });
        });
    };
    const auto add_for_id = [&](const CommandTree::Help& help, int (DlqCommand::*method)(const std::string&),
                                Publishes publishes = Publishes::nothing) {
        CLI::App* app = tree.add(group, help, [dlq, method, publishes](const Call& call) {
            return with_letters(call, *dlq, publishes, [&](DlqCommand& command) {
                const std::string id = canonical_uuid(dlq->id);
                if (!id.empty()) return (command.*method)(id);
                return complain(call.context, kWrongUsage, fmt::format("invalid message id: {}", one_line(dlq->id)));
            });
        });
        app->add_option("id", dlq->id, "the letter's id, as `dlq list` shows it")->required()->type_name("ID");
        return app;
    };
    constexpr const char* kStatusJson = "an object: id, status, message";

    CLI::App* app = add({"list", "List dead letters, newest first",
                         "  deliverd dlq list\n  deliverd dlq list --topic orders.dlq.v1 --status PENDING\n"
                         "  deliverd dlq list --text timeout --from 2026-02-20T00:00:00Z --json",
                         "an array of objects with the table's columns"},
                        &DlqCommand::list);
    add_filters(app, *dlq);
    whole(app, "--limit", dlq->limit, 1, 1'000'000, "letters at most")->default_str(std::to_string(dlq->limit));

    app = add_for_id(
        {"show", "Show one letter as JSON",
         "  deliverd dlq show 550e8400-e29b-41d4-a716-446655440000\n"
         "  deliverd dlq show --raw 550e8400-e29b-41d4-a716-446655440000    key, value and headers byte by byte\n"
         "  deliverd dlq show --audit 550e8400-e29b-41d4-a716-446655440000  who did what to it",
         "accepted; the answer is JSON anyway"},
        &DlqCommand::show_or_audit);
    CLI::Option* raw = app->add_flag("--raw", dlq->raw, "its bytes in base64, and as text where they are text");
    app->add_flag("--audit", dlq->audit, "what was done to it, oldest first; works for a deleted letter too")
        ->excludes(raw);

    add_for_id({"retry", "Send one letter back to where it came from",
                "  deliverd dlq retry 550e8400-e29b-41d4-a716-446655440000\n"
                "Publishes it to its original topic, confirmed by the broker, or puts it back into its lane or spool.\n"
                "Exits with 1 if that failed; the message says whether it may have been published.",
                kStatusJson},
               &DlqCommand::retry, Publishes::one);

    app =
        add({"retry-all", "Send back all letters of a topic and print how many were sent",
             "  deliverd dlq retry-all orders.dlq.v1\n"
             "First prints on standard error where the messages go: their headers say that, and kafka.replay_topics\n"
             "limits it. Skips those that cannot be retried. Ctrl-C stops it and prints how many were sent; the same\n"
             "command then sends the rest. If the process dies, `deliverd serve` or the same command resumes it.",
             "an object: topic, retried, failed, in_doubt, taken_over, not_tried"},
            &DlqCommand::retry_all, Publishes::all);
    app->add_option("topic", dlq->topic, "the dead-letter topic, the original one, or the name of a lane or a spool")
        ->required()
        ->type_name("TOPIC");

    add_for_id({"dead", "Mark one letter as dead: it is not retried any more",
                "  deliverd dlq dead 550e8400-e29b-41d4-a716-446655440000", kStatusJson},
               &DlqCommand::mark_dead);

    add_for_id(
        {"revive", "Allow retries of a letter that is DEAD",
         "  deliverd dlq revive 550e8400-e29b-41d4-a716-446655440000\n"
         "It becomes PENDING, and its retries count from 0. Use it when the cause is fixed: with `on_dead: block`\n"
         "a DEAD event blocks the later ones of its aggregate. `deliverd dlq retry` then sends it.",
         kStatusJson},
        &DlqCommand::revive);

    add_for_id({"delete", "Delete one letter; its audit stays",
                "  deliverd dlq delete 550e8400-e29b-41d4-a716-446655440000", "an object: success, message"},
               &DlqCommand::remove);

    app = add({"purge", "Delete the old letters of a status and print how many",
               "  deliverd dlq purge --status RESOLVED --older-than 7d\n"
               "Deletes in small transactions: you can interrupt it, and it blocks nobody. Each letter gets an audit\n"
               "line.",
               "an object: purged"},
              &DlqCommand::purge);
    app->add_option("--status", dlq->status, "PENDING, RETRYING, RESOLVED or DEAD")->required();
    seconds(app, "--older-than", dlq->older_than_seconds, kMostPurgeSeconds, "not changed for this long")->required();

    add({"stats", "Count the letters per topic and status", "  deliverd dlq stats --json", "an array of objects"},
        &DlqCommand::stats);
}

}  // namespace deliverd::cli
