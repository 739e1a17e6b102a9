#include "app/cli_dlq.h"

#include "app/cli_numbers.h"

namespace deliverd::app {

namespace {

constexpr const char* kDlqAbout =
    "A dead letter is what somebody gave up on: a consumer that put it into a dead-letter topic (read by `deliverd\n"
    "serve`), one of this program's lanes, or a spool. It is PENDING until somebody deals with it; a retry sends it "
    "back to "
    "where\n"
    "it came from and makes it RESOLVED. After three retries that failed, or by hand, it is DEAD.\n"
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
    app->add_option("--error-class", dlq.error_class, "the exception's class, exactly")->type_name("CLASS");
    app->add_option("--text", dlq.text, "in the error or the payload, in any case");
    app->add_option("--key", dlq.key, "the record's key, exactly");
    app->add_option("--from", dlq.from, "stored at or after; RFC 3339, with Z or an offset")->type_name("TIME");
    app->add_option("--until", dlq.until, "stored before")->type_name("TIME");
}

void with_id(CLI::App* app, DlqArguments& dlq) {
    app->add_option("id", dlq.id, "of the letter, as `dlq list` shows it")->required()->type_name("ID");
}

}  // namespace

void add_dlq_commands(CLI::App& root, DlqArguments& dlq, const AddCommand& add) {
    CLI::App* parent = root.add_subcommand("dlq", "Dead letters from the shell");
    parent->footer(kDlqAbout);

    CLI::App* app = add(parent, Action::dlq_list, "list", "Dead letters, newest first",
                        "  deliverd dlq list\n  deliverd dlq list --topic orders.dlq.v1 --status PENDING\n"
                        "  deliverd dlq list --text timeout --from 2026-02-20T00:00:00Z --json",
                        "an array of objects with the table's columns");
    add_filters(app, dlq);
    whole(app, "--limit", dlq.limit, 1, 1'000'000, "at most so many")->default_str(std::to_string(dlq.limit));

    app = add(parent, Action::dlq_show, "show", "One letter as JSON",
              "  deliverd dlq show 550e8400-e29b-41d4-a716-446655440000\n"
              "  deliverd dlq show --raw 550e8400-e29b-41d4-a716-446655440000    key, value and headers byte by byte\n"
              "  deliverd dlq show --audit 550e8400-e29b-41d4-a716-446655440000  who did what to it",
              "accepted; the answer is JSON anyway");
    with_id(app, dlq);
    CLI::Option* raw = app->add_flag("--raw", dlq.raw, "its bytes in base64, and as text where they are text");
    app->add_flag("--audit", dlq.audit, "what was done to it, oldest first; also when it was deleted")->excludes(raw);

    app = add(parent, Action::dlq_retry, "retry", "Send one back to where it came from",
              "  deliverd dlq retry 550e8400-e29b-41d4-a716-446655440000\n"
              "To its original topic, confirmed by the broker, or back into its lane or spool. Exit 1 when it was not, "
              "and the\n"
              "line says whether it may have been published nevertheless.",
              "an object: id, status, message");
    with_id(app, dlq);

    app = add(
        parent, Action::dlq_retry_all, "retry-all", "Send back all of a topic; prints how many were",
        "  deliverd dlq retry-all orders.dlq.v1\n"
        "First prints on standard error where the messages go: each one's headers say that, and kafka.replay_topics "
        "says\n"
        "where they may go. Those that cannot be retried are left out. Ctrl-C ends it, and says how far it came; given "
        "again, the\n"
        "command sends what is left. One whose process died is gone on with by `deliverd serve`, or by the command.",
        "an object: topic, retried, failed, in_doubt, taken_over, not_tried");
    app->add_option("topic", dlq.topic, "the dead-letter topic, the original one, or the name of a lane or a spool")
        ->required()
        ->type_name("TOPIC");

    app = add(parent, Action::dlq_dead, "dead", "Give one up: it is not retried any more",
              "  deliverd dlq dead 550e8400-e29b-41d4-a716-446655440000", "an object: id, status, message");
    with_id(app, dlq);

    app = add(
        parent, Action::dlq_revive, "revive", "Let one that is DEAD be retried again",
        "  deliverd dlq revive 550e8400-e29b-41d4-a716-446655440000\n"
        "It becomes PENDING, and its retries count from 0. For when the cause is fixed: with `on_dead: block` a DEAD\n"
        "event keeps the later ones of its aggregate back. `deliverd dlq retry` then sends it.",
        "an object: id, status, message");
    with_id(app, dlq);

    app = add(parent, Action::dlq_delete, "delete", "Delete one; its audit stays",
              "  deliverd dlq delete 550e8400-e29b-41d4-a716-446655440000", "an object: success, message");
    with_id(app, dlq);

    app = add(parent, Action::dlq_purge, "purge", "Delete the old ones of a state; prints how many",
              "  deliverd dlq purge --status RESOLVED --older-than 7d\n"
              "In small transactions: it can be interrupted, and holds nobody up. Each has a line in the audit.",
              "an object: purged");
    app->add_option("--status", dlq.status, "PENDING, RETRYING, RESOLVED or DEAD")->required();
    seconds(app, "--older-than", dlq.older_than_seconds, kMostPurgeSeconds, "not changed for so long")->required();

    add(parent, Action::dlq_stats, "stats", "How many, by topic and state", "  deliverd dlq stats --json",
        "an array of objects");
}

}  // namespace deliverd::app
