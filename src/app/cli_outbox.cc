#include "app/cli_outbox.h"

#include "app/cli_numbers.h"

namespace deliverd::app {

void add_outbox_commands(CLI::App& root, OutboxArguments& outbox, const AddCommand& add) {
    CLI::App* parent = root.add_subcommand("outbox", "The event outbox from the shell");
    parent->footer(
        "Applications write events in their own transaction: INSERT INTO outbox, deliverd.add_event(), or the C++\n"
        "library. These commands are for looking, trying and repairing.\n"
        "Examples:\n  deliverd outbox add --aggregate order-1 --type OrderCreated --payload '{\"total\": 42}'\n"
        "  deliverd outbox list\n  deliverd outbox stats\n  deliverd outbox cleanup --older-than 7d");

    CLI::App* app = add(parent, Action::outbox_add, "add", "Store an event; prints its id",
                        "  deliverd outbox add --aggregate order-1 --type OrderCreated --payload '{\"total\": 42}'\n"
                        "  deliverd outbox add --aggregate order-1 --type OrderPaid --payload @paid.json --metadata "
                        "'{\"by\": \"me\"}'\n"
                        "  make-event | deliverd outbox add --aggregate order-1 --type OrderPaid --payload -",
                        "accepted; the answer is JSON anyway");
    app->add_option("--aggregate", outbox.aggregate, "aggregate_id: events of one arrive in the order written")
        ->required()
        ->type_name("ID");
    app->add_option("--type", outbox.type, "event_type, such as OrderCreated")->required();
    app->add_option("--payload", outbox.payload, "JSON, or @FILE, or - for standard input")->required();
    app->add_option("--metadata", outbox.metadata, "a JSON object; its entries travel as headers")
        ->default_str(outbox.metadata);

    app = add(parent, Action::outbox_list, "list", "Unpublished events, or all of one aggregate",
              "  deliverd outbox list\n  deliverd outbox list --aggregate order-1 --json\n"
              "Oldest first. `waiting` has failed and is tried again, `dead` was given up.",
              "an array of objects with the table's columns");
    app->add_option("--aggregate", outbox.aggregate, "published and dead ones too, of this aggregate_id")
        ->type_name("ID");
    whole(app, "--limit", outbox.limit, 1, 1'000'000, "at most so many")->default_str(std::to_string(outbox.limit));

    app = add(parent, Action::outbox_show, "show", "One event as JSON", "  deliverd outbox show 17",
              "accepted; the answer is JSON anyway");
    any_whole(app, "id", outbox.id, "its id")->required();

    add(parent, Action::outbox_stats, "stats", "How many events are in which state",
        "  deliverd outbox stats --json\nReads the whole table.", "an object");

    app = add(parent, Action::outbox_cleanup, "cleanup", "Delete old published events; prints how many",
              "  deliverd outbox cleanup\n  deliverd outbox cleanup --older-than 12h\n"
              "In small transactions: it can be interrupted, and holds nobody up.",
              "an object: deleted");
    seconds(app, "--older-than", outbox.older_than_seconds, kMostLeaseSeconds, "published longer ago than that")
        ->default_str("7d");

    app = add(parent, Action::outbox_mark, "mark", "It was published, by other means",
              "  deliverd outbox mark --id 17\n"
              "Prints true (exit 0), or false (exit 1) when it is unknown or was published already.",
              "accepted; the answer is JSON anyway");
    any_whole(app, "--id", outbox.id, "of the event")->required();

    app = add(parent, Action::outbox_retry_count, "retry-count",
              "Count a failed attempt of an open event; prints the new count",
              "  deliverd outbox retry-count --id 17 --error 'broker said 503'", "accepted; the answer is JSON anyway");
    any_whole(app, "--id", outbox.id, "of the event")->required();
    app->add_option("--error", outbox.error, "kept as last_error");
}

}  // namespace deliverd::app
