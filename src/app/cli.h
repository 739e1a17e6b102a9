// The command line as plain values. CLI11 is in cli*.cc alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "deliverd/outbox.h"
#include "deliverd/spool.h"

namespace deliverd::app {

enum class Action {
    serve,
    demo,
    worker,
    migrate,
    lease_enqueue,
    lease_claim,
    lease_ack,
    lease_fail,
    lease_dead,
    lease_renew,
    lease_dedup,
    lease_show,
    orders_submit,
    orders_show,
    orders_list,
    outbox_add,
    outbox_list,
    outbox_show,
    outbox_stats,
    outbox_cleanup,
    outbox_mark,
    outbox_retry_count,
    dlq_list,
    dlq_show,
    dlq_retry,
    dlq_retry_all,
    dlq_dead,
    dlq_revive,
    dlq_delete,
    dlq_purge,
    dlq_stats,
    spool_add,
    spool_list,
    spool_show,
    spool_retry,
    spool_cleanup,
    spool_resolve,
    spool_import,
    token_new,
    config_check,
    config_show,
    config_docs,
    doctor,
    bench,
};

struct WorkerArguments {
    std::string lane;
    bool once = false;
    bool loop = false;
    std::optional<std::string> worker_id;
};

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

struct OrdersArguments {
    std::string file;
    std::string key;
    std::optional<std::string> status;
    std::int32_t limit = 100;
};

struct OutboxArguments {
    std::int64_t id = 0;
    std::optional<std::string> aggregate;
    std::string type;
    std::string payload;
    std::string metadata = "{}";
    std::string error;
    std::int32_t limit = kDefaultEventLimit;
    double older_than_seconds = kDefaultKeepSeconds;
};

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

struct SpoolArguments {
    std::string file;
    std::string name = "hook";
    std::string endpoint;
    std::string data;
    std::string error;
    std::optional<std::string> code;
    std::int32_t attempts_made = 0;
    std::int32_t max_attempts = kSpoolMaxAttempts;
    std::optional<std::string> state;
    bool due = false;
    std::optional<std::int64_t> limit;
    std::vector<std::string> ids;
    bool allow_private = false;
    std::optional<std::string> token_env;
    std::vector<std::string> token_hosts;
    double timeout_seconds = 10;
    std::string to;  // import: dead-letters | events
    std::optional<std::string> import_name;
    std::string type = "Webhook";  // of the events
};

struct TokenArguments {
    std::string name;
    std::string role;
    std::vector<std::string> topics;
};

struct DemoArguments {
    double seconds = 0;  // 0: until interrupted
    double rate = 20;
    std::optional<std::uint16_t> port;
};

struct BenchArguments {
    std::int64_t rows = 200'000;
    std::int32_t batch_size = 500;
    bool existing = false;
    std::string json_file;
};

struct Arguments {
    Action action = Action::serve;
    ConfigRequest config;
    bool json = false;
    bool dry_run = false;
    WorkerArguments worker;
    LeaseArguments lease;
    OrdersArguments orders;
    OutboxArguments outbox;
    DlqArguments dlq;
    SpoolArguments spool;
    TokenArguments token;
    DemoArguments demo;
    BenchArguments bench;
};

/// What the command line asks for: either arguments, or something to print and a status to exit with.
struct ParsedCommandLine {
    std::optional<Arguments> arguments;
    int status = 0;
    std::string out;  // --help, --version
    std::string err;  // one line, without "deliverd: "
};

/// `words` without the program's name.
[[nodiscard]] ParsedCommandLine parse_command_line(std::span<const std::string> words);

[[nodiscard]] std::string_view version();

}  // namespace deliverd::app
