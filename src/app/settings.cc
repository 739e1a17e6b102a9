#include "app/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace deliverd::app {

namespace {

using enum SettingType;

constexpr double kDay = 86400;
constexpr double kMaxCount = 1'000'000;
constexpr double kMaxBytes = 1024.0 * 1024 * 1024;

// NOLINTNEXTLINE(cert-err58-cpp): constexpr data
constexpr auto kSettings = std::to_array<Setting>({
    {"app.name", text, "deliverd", "Shown in logs and `config show`."},
    {"app.environment", text, "production", "Shown in logs and `config show`."},

    {"server.host", text, "127.0.0.1", "Address the API listens on. Anything but loopback needs `auth`."},
    {"server.port", integer, "8080", "Port the API listens on; 0 takes any free one.", 0, 65535},
    {"server.shutdown_seconds", seconds, "30", "How long a stop waits for what is under way.", 0, kDay, "", "s"},
    {"server.open_metrics", boolean, "false", "`/metrics` without a token."},
    {"server.handler_threads", integer, "4", "Requests worked on at once.", 1, 256},
    {"server.max_connections", integer, "1024",
     "A further connection takes the place of the one that has waited longest for a request, or else for its body; "
     "when "
     "all have one, it is answered 503.",
     1, 65535},
    {"server.max_queued_requests", integer, "1024", "Requests waiting for a handler; further ones get 503.", 1,
     kMaxCount},
    {"server.max_header_bytes", integer, "16384", "Longest request header.", 512, kMaxBytes, "", "bytes"},
    {"server.max_body_bytes", integer, "1048576", "Longest request body; more is 413.", 1024, kMaxBytes, "", "bytes"},
    {"server.header_timeout_seconds", seconds, "10", "A client must have sent its header by then.", 0.1, kDay, "", "s"},
    {"server.body_timeout_seconds", seconds, "30", "And its body by then.", 0.1, kDay, "", "s"},
    {"server.idle_timeout_seconds", seconds, "60", "A connection without a request is closed.", 0.1, kDay, "", "s"},
    {"server.write_timeout_seconds", seconds, "30", "A client must have taken its answer by then.", 0.1, kDay, "", "s"},

    {.path = "database.url",
     .type = text,
     .fallback = "sqlite:./deliverd.db",
     .doc = "`postgres://user@host:5432/name` or `sqlite:PATH`. `DATABASE_URL` wins over it, `--database` over both.",
     .secret = true},
    {"database.host", text, "", "Instead of `url`: the PostgreSQL server. Not together with `url`."},
    {"database.port", integer, "5432", "With `host`.", 1, 65535},
    {"database.name", text, "", "With `host`: the database."},
    {"database.user", text, "", "With `host`: the role."},
    {.path = "database.password",
     .type = text,
     .fallback = "",
     .doc = "Used for the URL in force unless that carries one itself.",
     .secret = true},
    {.path = "database.ssl_mode",
     .type = choice,
     .fallback = "",
     .doc = "With `host`: as in libpq; without it, libpq's default.",
     .choices = "disable|allow|prefer|require|verify-ca|verify-full"},
    {"database.max_open_conns", integer, "8", "PostgreSQL connections this process opens at most.", 1, 1000},
    {"database.max_idle_conns", integer, "", "Accepted for older files; without effect: open connections are kept.", 0,
     1000},
    {"database.conn_max_lifetime", seconds, "",
     "Accepted for older files; without effect: broken connections are replaced.", 0, kDay, "", "s"},
    {"database.schema", text, "public", "PostgreSQL schema of the outbox tables."},
    {"database.auto_migrate", boolean, "false",
     "Let `serve` and `worker` upgrade a PostgreSQL schema. SQLite is always upgraded."},
    {"database.connect_timeout_seconds", seconds, "5", "PostgreSQL.", 0.1, 3600, "", "s"},
    {"database.statement_timeout_seconds", seconds, "30", "PostgreSQL cancels a statement after this.", 0.1, 3600, "",
     "s"},
    {"database.lock_timeout_seconds", seconds, "5", "PostgreSQL gives up waiting for a lock after this.", 0.1, 3600, "",
     "s"},
    {"database.pool_wait_seconds", seconds, "10", "Longest wait for a free connection.", 0.1, 3600, "", "s"},
    {"database.busy_timeout_seconds", seconds, "5", "Longest wait for SQLite's write lock.", 0.1, 3600, "", "s"},

    {.path = "auth.mode",
     .type = choice,
     .fallback = "",
     .doc = "`none` states that something else guards the door; `tokens` is what a list of tokens means anyway.",
     .choices = "none|tokens"},
    {"auth.tokens[].name", text, "", "Who it is: stands in logs and in the audit."},
    {.path = "auth.tokens[].role",
     .type = choice,
     .fallback = "viewer",
     .doc = "viewer reads, operator also changes, admin also deletes.",
     .choices = "viewer|operator|admin"},
    {"auth.tokens[].sha256", text, "",
     "Hex SHA-256 of the token, as `sha256sum` prints it for a file without a line break."},

    {.path = "log.level",
     .type = choice,
     .fallback = "info",
     .doc = "The least that is written.",
     .choices = "debug|info|warn|error"},
    {.path = "log.format",
     .type = choice,
     .fallback = "auto",
     .doc = "auto: human on a terminal, JSON otherwise.",
     .choices = "auto|human|json"},

    {"orders.ledger_ttl_hours", number, "48", "How long the ledger keeps a broker's answer for callers who ask again.",
     0.0001, 24 * 3650},
    {"orders.max_waiting", integer, "4096", "Orders waiting to be stored; further ones get 503.", 1, kMaxCount},
    {"orders.group_size", integer, "64", "Orders stored with one commit at most.", 1, 10000},
    {"orders.writers", integer, "2", "Commits on their way at once.", 1, 64},

    {"upkeep.ledger_purge_seconds", seconds, "3600", "How often expired ledger rows are deleted.", 0.1, kDay, "", "s"},
    {"upkeep.batch_size", integer, "1000", "Rows a delete takes, so that none holds locks for long.", 1, 100000},

    {.path = "lanes.*.outbox",
     .type = choice,
     .fallback = "",
     .doc = "Required: where the messages come from. `memory` is the lease protocol's table `outbox_memory`, `orders` "
            "the order outbox.",
     .choices = "memory|orders"},
    {.path = "lanes.*.batch_size",
     .type = integer,
     .fallback = "100",
     .doc = "Rows a claim takes, and at most a settle.",
     .least = 1,
     .most = 10000,
     .orders_fallback = "32",
     .orders_environment = "OUTBOX_BATCH_SIZE"},
    {.path = "lanes.*.parallelism",
     .type = integer,
     .fallback = "16",
     .doc = "Messages at the sink at once.",
     .least = 1,
     .most = 10000,
     .orders_fallback = "4",
     .orders_environment = "OUTBOX_PARALLELISM"},
    {.path = "lanes.*.lease_seconds",
     .type = seconds,
     .fallback = "60",
     .doc = "How long a claimed row is this worker's without being renewed.",
     .least = 0.1,
     .most = kDay,
     .unit = "s",
     .only_outbox = "memory"},
    {.path = "lanes.*.loop_interval_seconds",
     .type = seconds,
     .fallback = "0.5",
     .doc = "Longest wait between looks at an empty table.",
     .least = 0.001,
     .most = kDay,
     .unit = "s",
     .only_outbox = "memory"},
    {.path = "lanes.*.max_payload_bytes",
     .type = integer,
     .fallback = "1048576",
     .doc = "Longer payloads are refused when they are enqueued.",
     .least = 1,
     .most = kMaxBytes,
     .unit = "bytes",
     .only_outbox = "memory"},
    {.path = "lanes.*.stuck_threshold_min",
     .type = number,
     .fallback = "10",
     .doc =
         "Minutes after which an order that is `sending`, and whose worker has not renewed it, goes back to the queue.",
     .least = 0.005,
     .most = 1440,
     .orders_environment = "OUTBOX_STUCK_THRESHOLD_MIN",
     .only_outbox = "orders"},
    {.path = "lanes.*.idle_sleep_ms",
     .type = integer,
     .fallback = "200",
     .doc = "Longest wait between looks at an empty table.",
     .least = 1,
     .most = 3'600'000,
     .unit = "ms",
     .orders_environment = "OUTBOX_IDLE_SLEEP_MS",
     .only_outbox = "orders"},
    {.path = "lanes.*.throttle",
     .type = boolean,
     .fallback = "false",
     .doc = "A 429 pauses and slows the whole lane, not only its own message.",
     .orders_fallback = "true"},
    {.path = "lanes.*.retry.max",
     .type = integer,
     .fallback = "5",
     .doc = "memory: the failure with this number is the last, and the row is dead. orders: so many retries, the "
            "failure after the last one is dead.",
     .least = 0,
     .most = 10000,
     .orders_fallback = "8",
     .orders_environment = "OUTBOX_RETRY_MAX"},
    {.path = "lanes.*.retry.base_seconds",
     .type = seconds,
     .fallback = "60",
     .doc = "memory: after n failures the wait is base · factor^n, in whole seconds. orders: base · factor^(n-1).",
     .least = 0,
     .most = kDay,
     .unit = "s",
     .orders_fallback = "2"},
    {"lanes.*.retry.factor", number, "2", "See `base_seconds`.", 1, 100},
    {.path = "lanes.*.retry.cap_seconds",
     .type = seconds,
     .fallback = "3600",
     .doc = "No wait is longer, jitter aside.",
     .least = 1,
     .most = 30 * kDay,
     .unit = "s",
     .orders_fallback = "256"},
    {.path = "lanes.*.retry.jitter",
     .type = number,
     .fallback = "0.3",
     .doc = "Each wait is spread by this fraction either way.",
     .least = 0,
     .most = 1,
     .orders_fallback = "0.1"},
    {.path = "lanes.*.sink.type",
     .type = choice,
     .fallback = "",
     .doc = "Required. `console` prints a JSON line a message; `none` delivers into nothing (for benchmarks).",
     .choices = "http|console|none"},
    {"lanes.*.sink.url", text, "", "http: where each message is posted."},
    {"lanes.*.sink.timeout_ms", integer, "5000", "http: longest whole request.", 1, 3'600'000, "", "ms"},
    {"lanes.*.sink.connect_timeout_ms", integer, "3000", "http: longest wait for a connection.", 1, 3'600'000, "",
     "ms"},
    {.path = "lanes.*.sink.headers",
     .type = text_map,
     .fallback = "",
     .doc = "http: sent with every request, beside those deliverd sets itself. The values are shown masked.",
     .secret = true},
    {.path = "lanes.*.sink.token", .type = text, .fallback = "", .doc = "http: bearer token.", .secret = true},
    {"lanes.*.sink.token_file", text, "", "http: file with the bearer token, read again when it changes."},
    {"lanes.*.sink.max_connections", integer, "64", "http: connections to the receiver.", 1, 10000},
    {"lanes.*.sink.max_answer_bytes", integer, "65536", "http: as much of an answer's body is read.", 0, kMaxBytes, "",
     "bytes"},
    {"lanes.*.sink.verify_tls", boolean, "true", "http: check the receiver's certificate."},
    {"lanes.*.sink.ca_file", text, "", "http: PEM file of the authorities to trust, instead of the system's."},
    {.path = "lanes.*.sink.processed_fields",
     .type = text,
     .fallback = "code,status",
     .doc = "A 409 whose JSON has `processed_value` in one of these fields means that the order was processed before.",
     .only_outbox = "orders"},
    {.path = "lanes.*.sink.processed_value",
     .type = text,
     .fallback = "already_processed",
     .doc = "See `processed_fields`; capitals do not matter.",
     .only_outbox = "orders"},
    {.path = "lanes.*.sink.processed_text",
     .type = text,
     .fallback = "already processed",
     .doc = "A 409 whose body contains this means the same.",
     .only_outbox = "orders"},
});

constexpr std::string_view kFileSuffix = "_file";

bool lies_below(std::string_view path, std::string_view section) {
    if (section.empty()) return true;
    if (!path.starts_with(section) || path.size() == section.size()) return false;
    const char next = path[section.size()];
    return next == '.' || next == '[';
}

std::string join_choices(std::string_view choices) {
    std::string text(choices);
    std::size_t at = 0;
    while ((at = text.find('|', at)) != std::string::npos) text.replace(at, 1, ", ");
    return text;
}

std::string range_text(const Setting& setting) {
    if (setting.most == std::numeric_limits<double>::max()) return "";
    return fmt::format(" from {:.15g} to {:.15g}", setting.least, setting.most);
}

std::string table_type(const Setting& setting) {
    switch (setting.type) {
        case text:
            return "text";
        case integer:
            return setting.unit.empty() ? "whole number" : fmt::format("whole number, {}", setting.unit);
        case number:
            return "number";
        case boolean:
            return "true or false";
        case seconds:
            return "seconds";
        case choice:
            return join_choices(setting.choices);
        case text_map:
            return "names and texts";
    }
    return "";
}

std::string table_default(const Setting& setting) {
    std::string out = setting.fallback.empty() ? "–" : fmt::format("`{}`", setting.fallback);
    if (!setting.orders_fallback.empty()) out += fmt::format(", orders `{}`", setting.orders_fallback);
    return out;
}

std::string table_doc(const Setting& setting) {
    std::string out(setting.doc);
    if (setting.secret && setting.type == text) out += " Secret.";
    if (!setting.only_outbox.empty()) out += fmt::format(" Only with `outbox: {}`.", setting.only_outbox);
    if (!setting.orders_environment.empty()) {
        out += fmt::format(" For orders `{}` wins over it.", setting.orders_environment);
    }
    return out;
}

}  // namespace

std::span<const Setting> settings() {
    return kSettings;
}

const Setting* find_setting(std::string_view pattern) {
    const auto* const found = std::ranges::find(kSettings, pattern, &Setting::path);
    return found == kSettings.end() ? nullptr : found;
}

const Setting* find_file_form(std::string_view pattern) {
    if (!pattern.ends_with(kFileSuffix)) return nullptr;
    const Setting* setting = find_setting(pattern.substr(0, pattern.size() - kFileSuffix.size()));
    return setting != nullptr && setting->secret && setting->type == text ? setting : nullptr;
}

bool is_section(std::string_view pattern) {
    return std::ranges::any_of(kSettings, [&](const Setting& s) { return lies_below(s.path, pattern); });
}

std::vector<std::string> names_in(std::string_view section) {
    std::vector<std::string> names;
    const auto add = [&](std::string name) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    };
    for (const Setting& setting : kSettings) {
        if (!lies_below(setting.path, section)) continue;
        std::string_view rest = setting.path.substr(section.size());
        if (rest.starts_with('.')) rest.remove_prefix(1);
        const std::size_t end = rest.find_first_of(".[");
        add(std::string(rest.substr(0, end)));
        if (end == std::string_view::npos && setting.secret && setting.type == text) add(std::string(rest) + "_file");
    }
    return names;
}

std::string describe_type(const Setting& setting) {
    switch (setting.type) {
        case text:
            return "text";
        case integer:
            return "a whole number" + range_text(setting);
        case number:
            return "a number" + range_text(setting);
        case boolean:
            return "true or false";
        case seconds:
            return "a number of seconds" + range_text(setting);
        case choice:
            return setting.choices.find('|') == std::string_view::npos ? fmt::format("\"{}\"", setting.choices)
                                                                       : "one of: " + join_choices(setting.choices);
        case text_map:
            return "names with a text each";
    }
    return "";
}

std::string settings_markdown() {
    std::string out;
    std::string section;
    for (const Setting& setting : kSettings) {
        const std::string_view head = setting.path.substr(0, setting.path.find('.'));
        if (head != section) {
            section = head;
            out += fmt::format("### {}\n\n| setting | type | default | what it does |\n|---|---|---|---|\n", section);
        }
        std::string name(setting.path);
        if (const std::size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, "NAME");
        out += fmt::format("| `{}` | {} | {} | {} |\n", name, table_type(setting), table_default(setting),
                           table_doc(setting));
        const bool last = &setting == &kSettings.back();
        if (last || (&setting + 1)->path.substr(0, (&setting + 1)->path.find('.')) != section) out += "\n";
    }
    return out;
}

}  // namespace deliverd::app
