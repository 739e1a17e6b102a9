#include "base/json_object.h"
#include "base/text.h"
#include "base/uuid.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"
#include "daemon/spool_letters.h"
#include "daemon/stop_signals.h"
#include "deadletter/letter_json.h"
#include "deadletter/retry_rules.h"

namespace deliverd::cli {

namespace {

struct DlqArguments {
    std::optional<std::string> id;  // for the commands that name a letter
    store::LetterQuery query;
    std::int32_t limit = 20;
    double older_than_seconds = 0;
    bool raw = false;
    bool audit = false;
    bool yes = false;
};

constexpr std::int32_t kPage = 100;  // letters per read: their payloads may be large
// A letter has a few lines for each retry; the limit only keeps an odd one from filling the memory.
constexpr std::int32_t kMaxAuditLines = 1000;
constexpr std::size_t kMaxShownError = 60;

bool has_filters(const store::LetterQuery& query) {
    return query.topic || query.source || query.error_class || query.text || query.key || query.status || query.from ||
           query.until;
}

/// What a dlq command works with.
struct DlqJob {
    const Call& call;
    const DlqArguments& asked;
    const std::string id;  // the letter's, in the form that the database has
    store::Database& database;
    store::DeadLetters& letters;
    deadletter::Manager& manager;
};

Failure unknown(const DlqJob& job) {
    return failed("no dead letter {} in {}", job.id, job.database.describe());
}

Status list(const DlqJob& job) {
    store::LetterQuery query = job.asked.query;
    Listing listing(job.call, "{:<36}  {:<8}  {:>7}  {:<29}  {:<24}  {}", "id", "status", "retries", "created_at",
                    "topic", "error_message");
    bool more = true;
    // Page by page: the letters that were printed need not stay in memory.
    while (more && listing.count() < job.asked.limit) {
        query.limit = std::min(job.asked.limit - static_cast<std::int32_t>(listing.count()), kPage);
        TRY_ASSIGN(const auto page, job.letters.list(query));
        for (const store::Letter& letter : page.letters) {
            listing.row([&] { return deadletter::row_json(letter); }, letter.id, store::to_string(letter.status),
                        fmt::format("{}/{}", letter.retry_count, letter.max_retries), rfc3339_offset(letter.created_at),
                        one_line(letter.topic.value_or(letter.provenance.original_topic)),
                        shorten(one_line(letter.provenance.error_message), kMaxShownError));
        }
        // A page without letters has no cursor to go on from.
        more = page.has_next && !page.letters.empty();
        if (more) query.after = store::LetterCursor{page.letters.back().created_at, page.letters.back().id};
    }
    listing.end(has_filters(query) ? "no dead letters match the filters" : "no dead letters");
    return more && !job.call.json ? job.call.print_line("more dead letters exist; --limit N shows them") : kDone;
}

Status audit(const DlqJob& job) {
    TRY_ASSIGN(const auto lines, job.letters.audit(job.id, kMaxAuditLines));
    if (lines.empty()) {
        // A letter has no lines at first, and a deleted letter keeps its own: only without both is it unknown.
        TRY_ASSIGN(const auto letter, job.letters.find(job.id));
        if (!letter) return unknown(job);
    }
    return job.call.print_line(deadletter::audit_json(lines));
}

Status show(const DlqJob& job) {
    if (job.asked.audit) return audit(job);
    TRY_ASSIGN(const auto letter, job.letters.find(job.id));
    if (!letter) return unknown(job);
    const std::string& pattern = job.call.config().dead_letters.kafka.topic_pattern;
    return job.call.print_line(job.asked.raw ? deadletter::raw_json(*letter)
                                             : deadletter::detail_json(*letter, pattern));
}

Status say(const DlqJob& job, store::LetterStatus status, std::string_view message) {
    return job.call.answer(deadletter::state_json(job.id, status, message),
                           fmt::format("{} {}: {}", job.id, store::to_string(status), one_line(message)));
}

Status retry(const DlqJob& job) {
    const deadletter::RetryReport report = job.manager.retry(job.id, daemon::cli_actor());
    if (report.answer == deadletter::RetryAnswer::not_found) return unknown(job);
    if (report.answer != deadletter::RetryAnswer::resolved) return failed("{}", report.message);
    return say(job, store::LetterStatus::resolved, report.message);
}

/// Prints the destinations before anything is sent: a header of each record names them.
Result<void> show_plan(const DlqJob& job) {
    TRY_ASSIGN(const auto planned, job.manager.plan(*job.asked.query.topic));
    std::ostream& err = job.call.context.err;
    for (const auto& [destination, refused] : planned) {
        const bool to_topic = destination.source == "kafka";
        if (to_topic && job.call.config().dead_letters.kafka.topic_pattern.empty()) continue;  // nothing is published
        err << fmt::format("{} to {}{}{}\n", destination.letters,
                           to_topic ? "topic " + one_line(destination.topic) : one_line(destination.source),
                           refused.empty() ? "" : ", refused: ", one_line(refused));
    }
    if (planned.size() == static_cast<std::size_t>(deadletter::kMaxPlanned)) {
        err << "topics with fewer messages, if any, are not shown\n";
    }
    return {};
}

Status retry_all(const DlqJob& job) {
    // A header, written by the record's sender, decides where it goes: a person should see that in time to stop it.
    TRY(show_plan(job));
    TRY_ASSIGN(const auto report, job.manager.retry_all(*job.asked.query.topic, daemon::cli_actor()));
    if (report.under_way_elsewhere) {
        return failed("a retry of all messages in topic {} is already under way", one_line(*job.asked.query.topic));
    }
    const store::Redrive& redrive = report.redrive;
    JsonObject object;
    object.text("topic", *job.asked.query.topic);
    object.number("retried", redrive.published);
    object.number("failed", redrive.failed);
    object.number("in_doubt", redrive.in_doubt);
    object.number("taken_over", redrive.taken_over);
    object.number("not_tried", report.not_tried);
    job.call.answer(object.done(), std::to_string(redrive.published));
    // Behind the numbers: what was sent before the end is sent all the same.
    if (!report.problem.empty()) return failed("not all: {}", deadletter::how_it_ended(report));
    if (report.not_tried > 0) {
        job.call.context.err << fmt::format("{} were not tried: {}\n", report.not_tried,
                                            one_line(report.not_tried_reason));
    }
    if (redrive.failed + redrive.in_doubt == 0) return kDone;
    return failed(
        "{} failed, {} in doubt (they may have been published); `deliverd dlq list --status RETRYING` shows them",
        redrive.failed, redrive.in_doubt);
}

/// Why a change was not made, if it was not. `what` completes "ID cannot be …".
Result<void> check_changed(const DlqJob& job, const deadletter::ChangeReport& report, std::string_view what) {
    using enum deadletter::ChangeAnswer;
    if (report.answer == done) return {};
    if (report.answer == not_found) return unknown(job);
    if (report.answer == conflict) return failed("{} cannot be {}: {}", job.id, what, report.reason);
    return Failure(report.store_error.value_or(Error{}));
}

Status mark_dead(const DlqJob& job) {
    TRY(check_changed(job, job.manager.mark_dead(job.id, daemon::cli_actor()), "marked as dead"));
    return say(job, store::LetterStatus::dead, deadletter::kMarkedDead);
}

Status revive(const DlqJob& job) {
    TRY(check_changed(job, job.manager.revive(job.id, daemon::cli_actor()), "revived"));
    return say(job, store::LetterStatus::pending, deadletter::kRevived);
}

Status remove(const DlqJob& job) {
    TRY(confirm(job.call, job.asked.yes, fmt::format("Delete dead letter {}?", job.id)));
    TRY(check_changed(job, job.manager.remove(job.id, daemon::cli_actor()), "deleted"));
    // Nothing here needs escaping in JSON: the id is a uuid by now.
    const std::string deleted = fmt::format("message {} deleted", job.id);
    return job.call.answer(fmt::format(R"({{"success":true,"message":"{}"}})", deleted), deleted);
}

Status purge(const DlqJob& job) {
    TRY(confirm(job.call, job.asked.yes,
                fmt::format("Delete all {} dead letters that have not changed for {} seconds?",
                            store::to_string(*job.asked.query.status), job.asked.older_than_seconds)));
    const auto age = from_seconds(job.asked.older_than_seconds);
    // Without a limit: the manager deletes in small transactions until none is left.
    const deadletter::PurgeReport report =
        job.manager.purge(*job.asked.query.status, age, std::nullopt, daemon::cli_actor());
    if (report.store_error) return failed("{} deleted, then: {}", report.purged, report.store_error->message);
    return job.call.answer(fmt::format(R"({{"purged":{}}})", report.purged), std::to_string(report.purged));
}

Status stats(const DlqJob& job) {
    TRY_ASSIGN(const auto topics, job.letters.topics());
    Listing listing(job.call, "{:<32}  {:<14}{:>10}{:>10}{:>10}{:>10}  {}", "topic", "source", "PENDING", "RETRYING",
                    "RESOLVED", "DEAD", "newest_at");
    for (const store::TopicCounts& topic : topics) {
        listing.row([&] { return deadletter::topic_json(topic); }, one_line(topic.topic), one_line(topic.source),
                    topic.pending, topic.retrying, topic.resolved, topic.dead, rfc3339_offset(topic.newest_at));
    }
    return listing.end("no dead letters");
}

using DlqWork = Status (*)(const DlqJob&);

enum class Publishes { nothing, one, all };

/// Opens what a command needs and runs `work`.
Status with_letters(const Call& call, const DlqArguments& asked, Publishes publishes, DlqWork work) {
    // Checked before anything is opened.
    const std::string id = asked.id ? canonical_uuid(*asked.id) : "";
    if (asked.id && id.empty()) return misused("invalid message id: {}", one_line(*asked.id));
    return with_database(call, MissingFile::refuse, [&](store::Database& database, Log& log) -> Status {
        config::DeadLettersConfig wanted = call.config().dead_letters;
        if (publishes == Publishes::nothing) wanted.kafka.brokers.clear();  // looking must not wait for Kafka
        // A letter of a spool goes back into the spool's file, whichever process retries it.
        daemon::SpoolReturns spools(call.config().spools);
        // Only for a long run, which a signal ends in order; before the unit, whose threads must not take the signals.
        std::optional<daemon::StopSignals> signals;
        if (publishes == Publishes::all) signals.emplace();
        TRY_ASSIGN(const auto unit,
                   daemon::DeadLetterUnit::make(wanted, database, &spools, log, daemon::WhenStopped::end_redrives));
        if (signals) {
            signals->on_signal(1, [&manager = unit->manager(), &call] {
                call.context.err << "stopping: finishing what is under way\n" << std::flush;
                manager.close();
            });
        }
        auto status = work({call, asked, id, database, unit->letters(), unit->manager()});
        // They refer to the manager, which ends before the signals do.
        if (signals) signals->clear_actions();
        return status;
    });
}

constexpr const char* kDlqAbout =
    "A dead letter is a message that a consumer, a lane or a spool gave up on; `deliverd serve` reads the consumers'\n"
    "dead-letter topics. It is PENDING at first. A retry sends it back to where it came from and makes it RESOLVED.\n"
    "After three failed retries, or `dlq dead`, it is DEAD.\n"
    "These commands use the database of the configuration and publish to its brokers.\n"
    "Examples:\n  deliverd dlq stats                       count them by topic and status\n"
    "  deliverd dlq list --topic orders.dlq.v1  list them with their errors\n"
    "  deliverd dlq show ID                     show one in full\n"
    "  deliverd dlq retry ID                    send it back; `retry-all TOPIC` all of them";

constexpr const char* kTopicAbout = "the dead-letter topic, the original one, or the name of a lane or a spool";
constexpr double kMostPurgeSeconds = 10.0 * 365 * 86400;

void add_yes(CLI::App* app, bool& yes) {
    app->add_flag("--yes", yes, "delete without asking; without a terminal, it never asks");
}

CLI::Option* add_status(CLI::App* app, store::LetterQuery& query) {
    return parsed(app, "--status", query.status, "one of PENDING, RETRYING, RESOLVED, DEAD", store::letter_status,
                  "PENDING, RETRYING, RESOLVED or DEAD");
}

void add_time(CLI::App* app, const char* flag, std::optional<WallTime>& time, const char* about) {
    parsed(app, flag, time, "a time such as 2026-02-20T10:30:00Z", parse_rfc3339, about)->type_name("TIME");
}

void add_filters(CLI::App* app, store::LetterQuery& query) {
    app->add_option("--topic", query.topic, kTopicAbout);
    add_status(app, query);
    const auto source = [](const std::string& text) {
        return store::is_letter_source(text) ? std::optional(text) : std::nullopt;
    };
    parsed(app, "--source", query.source, "kafka, lane:NAME or spool:NAME", source, "kafka, lane:NAME or spool:NAME");
    text(app, "--error-class CLASS", query.error_class, "the exact class of the exception");
    app->add_option("--text", query.text, "text in the error or the payload, upper or lower case");
    app->add_option("--key", query.key, "the exact key of the record");
    add_time(app, "--from", query.from, "stored at or after; RFC 3339, with Z or an offset");
    add_time(app, "--until", query.until, "stored before");
}

}  // namespace

void add_dlq(CommandTree& tree) {
    const auto dlq = std::make_shared<DlqArguments>();
    CLI::App* group = tree.group("dlq", "Use the dead letters from the shell", kDlqAbout);
    const auto add = [&](const CommandTree::Help& help, DlqWork work, Publishes publishes = Publishes::nothing) {
        return tree.add(group, help, [=](const Call& call) { return with_letters(call, *dlq, publishes, work); });
    };
    const auto add_for_id = [&](const CommandTree::Help& help, DlqWork work, Publishes publishes = Publishes::nothing) {
        CLI::App* app = add(help, work, publishes);
        text(app, "id ID", dlq->id, "the letter's id, as `dlq list` shows it")->required();
        return app;
    };
    constexpr const char* kStatusJson = "an object: id, status, message";

    CLI::App* app = add({"list", "List dead letters, newest first",
                         "  deliverd dlq list\n  deliverd dlq list --topic orders.dlq.v1 --status PENDING\n"
                         "  deliverd dlq list --text timeout --from 2026-02-20T00:00:00Z --json",
                         "an array of objects with the table's columns"},
                        list);
    add_filters(app, dlq->query);
    whole(app, "--limit", dlq->limit, 1, 1'000'000, "letters at most");

    app = add_for_id(
        {"show", "Show one letter as JSON",
         "  deliverd dlq show 550e8400-e29b-41d4-a716-446655440000\n"
         "  deliverd dlq show --raw 550e8400-e29b-41d4-a716-446655440000    key, value and headers byte by byte\n"
         "  deliverd dlq show --audit 550e8400-e29b-41d4-a716-446655440000  who did what to it",
         kAlwaysJson},
        show);
    CLI::Option* raw = app->add_flag("--raw", dlq->raw, "its bytes in base64, and as text where they are text");
    app->add_flag("--audit", dlq->audit, "what was done to it, oldest first; works for a deleted letter too")
        ->excludes(raw);

    add_for_id({"retry", "Send one letter back to where it came from",
                "  deliverd dlq retry 550e8400-e29b-41d4-a716-446655440000\n"
                "Publishes it to its original topic, confirmed by the broker, or puts it back into its lane or spool.\n"
                "Exits with 1 if that failed; the message says whether it may have been published.",
                kStatusJson},
               retry, Publishes::one);

    app = add(
        {"retry-all", "Send back all letters of a topic and print how many were sent",
         "  deliverd dlq retry-all orders.dlq.v1\n"
         "First prints on standard error the topics that the messages will be sent to. Their headers name these\n"
         "topics; kafka.replay_topics limits them. Skips letters that cannot be retried. Ctrl-C stops it and prints\n"
         "how many were sent; the same command then sends the rest. If the process dies, `deliverd serve` or the\n"
         "same command resumes it.",
         "an object: topic, retried, failed, in_doubt, taken_over, not_tried"},
        retry_all, Publishes::all);
    text(app, "topic TOPIC", dlq->query.topic, kTopicAbout)->required();

    add_for_id({"dead", "Mark one letter as dead: it is not retried any more",
                "  deliverd dlq dead 550e8400-e29b-41d4-a716-446655440000", kStatusJson},
               mark_dead);

    add_for_id(
        {"revive", "Allow retries of a letter that is DEAD",
         "  deliverd dlq revive 550e8400-e29b-41d4-a716-446655440000\n"
         "It becomes PENDING, and its retries count from 0. Use it when the cause is fixed: with `on_dead: block`\n"
         "a DEAD event blocks the later ones of its aggregate. `deliverd dlq retry` then sends it.",
         kStatusJson},
        revive);

    app = add_for_id({"delete", "Delete one letter; its audit stays",
                      "  deliverd dlq delete 550e8400-e29b-41d4-a716-446655440000", "an object: success, message"},
                     remove);
    add_yes(app, dlq->yes);

    app = add({"purge", "Delete the old letters of a status and print how many",
               "  deliverd dlq purge --status RESOLVED --older-than 7d\n"
               "Deletes in small transactions: you can interrupt it, and it blocks no other session. The audit\n"
               "records each letter.",
               "an object: purged"},
              purge);
    add_status(app, dlq->query)->required();
    seconds(app, "--older-than", dlq->older_than_seconds, kMostPurgeSeconds, "not changed for this long")->required();
    add_yes(app, dlq->yes);

    add({"stats", "Count the letters per topic and status", "  deliverd dlq stats --json", "an array of objects"},
        stats);
}

}  // namespace deliverd::cli
