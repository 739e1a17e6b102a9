#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <filesystem>
#include <ranges>

#include "base/text.h"
#include "cli/command_tree.h"
#include "daemon/jwks_refresh.h"
#include "daemon/parts.h"
#include "deadletter/kafka/inspect.h"
#include "http/tls.h"

namespace deliverd::cli {

namespace {

// A person waits for it, and what needs longer is in trouble anyway.
constexpr Duration kCheckDeadline = std::chrono::seconds(5);
constexpr auto kRenewBefore = std::chrono::days(14);  // a certificate's end

/// What was found, in the order of looking.
class Findings {
public:
    template <typename... Values>
    void good(std::string check, fmt::format_string<Values...> text, Values&&... values) {
        all_.push_back({std::move(check), true, fmt::format(text, std::forward<Values>(values)...)});
    }
    template <typename... Values>
    void bad(std::string check, fmt::format_string<Values...> text, Values&&... values) {
        all_.push_back({std::move(check), false, fmt::format(text, std::forward<Values>(values)...)});
    }
    void add(store::Finding finding) { all_.push_back(std::move(finding)); }
    [[nodiscard]] const std::vector<store::Finding>& all() const { return all_; }

private:
    std::vector<store::Finding> all_;
};

void look_at_config(const config::LoadedConfig& loaded, Findings& findings) {
    for (const std::string& problem : loaded.problems) findings.bad("config", "{}", problem);
    if (!loaded.problems.empty()) return;
    findings.good("config", "{}, {} lane(s)", loaded.source, loaded.config.lanes.size());
    if (loaded.config.lanes.empty()) {
        findings.good("lanes", "none configured: serve would run the API alone; add one below `lanes:`");
    }
}

void look_at_api(const config::Config& config, Findings& findings) {
    if (!config.auth.enabled || config.server.tls || api::is_loopback(config.server.host)) return;
    findings.good("api",
                  "warning: tokens reach {} in plain HTTP (server.insecure_http); make sure that something in front "
                  "speaks TLS",
                  config.server.host);
}

void look_at_tls(const config::Config& config, Findings& findings) {
    const auto& files = config.server.tls;
    if (!files) return;
    const auto loaded = http::load_tls(*files);
    if (!loaded) return findings.bad("tls", "{}", loaded.error().message);
    const WallTime now = SystemClock().wall_now();
    const std::string end = rfc3339_millis(loaded->valid_until);
    if (now < loaded->valid_from) {
        findings.bad("tls", "{} is not valid before {}", files->cert_file, rfc3339_millis(loaded->valid_from));
    } else if (now >= loaded->valid_until) {
        findings.bad("tls", "{} expired at {}; renew it: serve reads the new one by itself", files->cert_file, end);
    } else if (now >= loaded->valid_until - kRenewBefore) {
        findings.good("tls", "warning: {} expires at {}, in less than {} days; renew it", files->cert_file, end,
                      kRenewBefore.count());
    } else {
        findings.good("tls", "{} is valid until {}", files->cert_file, end);
    }
    std::error_code ignored;
    const auto permissions = std::filesystem::status(files->key_file, ignored).permissions();
    // Others only: a group that may read it is how services share a key.
    if ((permissions & std::filesystem::perms::others_all) != std::filesystem::perms::none) {
        findings.bad("tls key", "every user of this machine may open {0}; run: chmod o= {0}", files->key_file);
    }
}

void look_at_jwt(const config::Config& config, Findings& findings) {
    if (!config.auth.jwt) return;
    // Nobody stops a doctor: the deadline of the request ends it.
    const std::atomic<bool> stopped = false;
    const auto keys = daemon::load_jwks(config.jwks, stopped).and_then(api::parse_jwks);
    if (!keys) {
        return findings.bad("jwt keys", "{}; until then, no token of {} is accepted", keys.error().message,
                            config.auth.jwt->rules.issuer);
    }
    std::string message = fmt::format("{} usable in {}", keys->keys.size(), config.jwks.name());
    if (!keys->left_out.empty()) message += fmt::format("; left out: {}", fmt::join(keys->left_out, "; "));
    findings.add({"jwt keys", !keys->keys.empty(), message});
}

/// A doctor changes nothing, and opening SQLite would create the file.
bool is_absent_file(const config::DatabaseConfig& database, Findings& findings) {
    if (!database.is_sqlite()) return false;
    const std::filesystem::path path(database.sqlite.path);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return false;
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (access(folder.c_str(), W_OK | X_OK) == 0) {
        findings.good("database", "{} does not exist yet; serve creates it", path.string());
    } else {
        findings.bad("database",
                     "{} does not exist, and this user cannot write to the folder {}; create the folder or change its "
                     "permissions",
                     path.string(), folder.string());
    }
    return true;
}

void look_at_schema(const config::DatabaseConfig& config, store::Database& database,
                    const Result<std::vector<store::Finding>>& inspected, Findings& findings) {
    const auto report = database.schema();
    if (!report) {
        // The finding about missing privileges says what to grant; a failure to read the schema would add nothing.
        const auto lacks_privileges = [](const store::Finding& f) { return f.check == "privileges" && !f.ok; };
        if (inspected && std::ranges::any_of(*inspected, lacks_privileges)) return;
        return findings.bad("schema", "{}", report.error().message);
    }
    if (report->state == store::SchemaState::current) {
        findings.good("schema", "version {}", report->found_version);
    } else if (daemon::is_upgraded_by_itself(config, *report)) {
        findings.good("schema", "version {} of {}; serve will upgrade it by itself", report->found_version,
                      report->wanted_version);
    } else {
        findings.bad("schema", "{}", report->advice);
    }
}

void look_at_table(const config::LaneConfig& lane, store::Database& database, Findings& findings) {
    const std::string check = "table of " + lane.options.name;
    auto outbox = database.event_outbox(lane.events.table);
    if (!outbox) return findings.bad(check, "{}", outbox.error().message);
    const auto inspected = (*outbox)->inspect();
    if (!inspected) return findings.bad(check, "{}", inspected.error().message);
    for (const store::Finding& finding : *inspected) findings.add({check, finding.ok, finding.message});
}

void look_at_database(const config::Config& config, Log& log, Findings& findings) {
    if (is_absent_file(config.database, findings)) return;
    const auto database = daemon::open_database(config.database, log);
    if (!database) return findings.bad("database", "{}", database.error().message);
    // open_database() connects to nothing yet, so an unreachable server shows here.
    if (const auto answer = (*database)->ping(kCheckDeadline); !answer) {
        return findings.bad("database", "{}", answer.error().message);
    }
    // inspect() before the schema is judged: missing privileges make the schema unreadable, and are the better news.
    findings.good("database", "{}", (*database)->describe());
    const auto inspected = (*database)->inspect();
    look_at_schema(config.database, **database, inspected, findings);
    if (!inspected) return findings.bad("inspection", "{}", inspected.error().message);
    for (const store::Finding& finding : *inspected) {
        if (finding.check != "schema") findings.add(finding);  // said above, with what serve would do about it
    }
    for (const config::LaneConfig& lane : config.lanes) {
        if (lane.outbox == config::OutboxKind::events) look_at_table(lane, **database, findings);
    }
}

std::string_view good_news(config::SinkConfig::Type type) {
    using enum config::SinkConfig::Type;
    if (type == http) return "the receiver accepts connections";
    if (type == console) return "messages are printed on standard output";
    if (type == none) {
        return "warning: a sink of type none discards every message and records it as sent; use it only for "
               "benchmarks";
    }
    return "the broker answers";
}

void look_at_spools(const config::Config& config, Findings& findings) {
    for (const config::SpoolConfig& spool : config.spools) {
        if (const auto note = config::token_note(spool)) findings.good("spool " + spool.name, "warning: {}", *note);
    }
}

void look_at_sinks(const config::Config& config, Log& log, Findings& findings) {
    for (const config::LaneConfig& lane : config.lanes) {
        const std::string check = "sink of " + lane.options.name;
        // Made as `serve` makes it, so that a wrong credentials file shows up here.
        const auto sink = daemon::make_sink(lane.sink, log);
        const auto answer = sink ? (*sink)->check(kCheckDeadline) : Result<void>(Failure(sink.error()));
        findings.add(
            {check, answer.has_value(), answer ? std::string(good_news(lane.sink.type)) : answer.error().message});
    }
}

constexpr std::size_t kTopicsNamed = 5;

std::string some_of(const std::vector<std::string>& names) {
    std::string out = fmt::format("{}", fmt::join(std::views::take(names, kTopicsNamed), ", "));
    if (names.size() > kTopicsNamed) out += fmt::format(" and {} more", names.size() - kTopicsNamed);
    return out;
}

void look_at_topics(const config::KafkaConfig& kafka, const deadletter::KafkaInspection& found, Findings& findings) {
    if (!found.unreadable.empty()) {
        findings.bad("dead-letter topics", "{}; let this user describe and read every topic that matches {}",
                     some_of(found.unreadable), kafka.topic_pattern);
    } else if (found.topics.empty()) {
        findings.good("dead-letter topics",
                      "no topic matches {}, or this user may not see it; deliverd finds a new topic within ten "
                      "seconds",
                      kafka.topic_pattern);
    } else {
        findings.good("dead-letter topics", "{} match{} {}: {}", found.topics.size(),
                      found.topics.size() == 1 ? "es" : "", kafka.topic_pattern, some_of(found.topics));
    }
    if (!found.group_problem.empty()) {
        findings.bad("consumer group",
                     "the offsets of {} cannot be read: {}; let this user read that group, or name another one in "
                     "kafka.consumer_group",
                     kafka.consumer_group, found.group_problem);
    } else if (!found.topics.empty()) {
        findings.good("consumer group", "{} can be read", kafka.consumer_group);
    }
}

/// Where dead letters are read and sent back.
void look_at_kafka(const config::DeadLettersConfig& config, Findings& findings) {
    const config::KafkaConfig& kafka = config.kafka;
    if (!kafka.configured) return;
    if (kafka.brokers.empty()) {
        return findings.good("kafka",
                             "warning: no brokers are named, so dead letters are neither read nor sent back; add "
                             "kafka.brokers, or remove `kafka`");
    }
    const auto found = deadletter::inspect_kafka(config::record_source_options(kafka), kCheckDeadline);
    if (!found) {
        return findings.bad("kafka",
                            "{}; check that the brokers run, and kafka.brokers, kafka.security_protocol and "
                            "kafka.sasl_password. Until this is fixed, no dead letter is read or sent back",
                            found.error().message);
    }
    findings.good("kafka", "{} broker(s) answer", found->brokers);
    if (config.ingest) look_at_topics(kafka, *found, findings);
}

void print(const Call& call, const std::vector<store::Finding>& findings) {
    if (call.json) {
        boost::json::array array;
        for (const store::Finding& f : findings) {
            array.push_back({{"check", f.check}, {"ok", f.ok}, {"message", f.message}});
        }
        call.print_line(boost::json::serialize(array));
        return;
    }
    const std::size_t width = widest(findings, &store::Finding::check);
    for (const store::Finding& f : findings) {
        call.print("{:<4} {:<{}}  {}\n", f.ok ? "ok" : "BAD", f.check, width, one_line(f.message));
    }
}

Status run_doctor(const Call& call) {
    const config::LoadedConfig& loaded = call.loaded;
    NullLog log;  // the findings say everything
    Findings findings;
    look_at_config(loaded, findings);
    // With problems the typed configuration is only half filled: nothing else can be judged by it.
    if (loaded.problems.empty()) {
        look_at_api(loaded.config, findings);
        look_at_tls(loaded.config, findings);
        look_at_jwt(loaded.config, findings);
        look_at_database(loaded.config, log, findings);
        look_at_sinks(loaded.config, log, findings);
        look_at_spools(loaded.config, findings);
        look_at_kafka(loaded.config.dead_letters, findings);
    }
    print(call, findings.all());
    // As every other command exits for a wrong configuration.
    if (!loaded.problems.empty()) return kWrongUsage;
    return std::ranges::all_of(findings.all(), &store::Finding::ok) ? kDone : kFailed;
}

}  // namespace

void add_doctor(CommandTree& tree) {
    tree.add(nullptr,
             {"doctor", "Check configuration, database, schema, sinks and the brokers of dead letters",
              "  deliverd doctor\n  deliverd doctor --json", "an array of findings"},
             run_doctor, Needs::configuration);
}

}  // namespace deliverd::cli
