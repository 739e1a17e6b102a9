#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "config/dead_letters.h"
#include "daemon/jwks_refresh.h"
#include "daemon/parts.h"
#include "deadletter/kafka/inspect.h"
#include "http/tls.h"

namespace deliverd::cli {

namespace {

constexpr Duration kCheckDeadline = std::chrono::seconds(5);
constexpr auto kRenewBefore = std::chrono::days(14);  // a certificate's end

using Findings = std::vector<store::Finding>;

void look_at_config(const config::LoadedConfig& loaded, Findings& findings) {
    for (const std::string& problem : loaded.problems) findings.push_back({"config", false, problem});
    if (!loaded.problems.empty()) return;
    findings.push_back({"config", true, fmt::format("{}, {} lane(s)", loaded.source, loaded.config.lanes.size())});
    if (loaded.config.lanes.empty()) {
        findings.push_back({"lanes", true, "none configured: serve would run the API alone; add one below `lanes:`"});
    }
}

void look_at_api(const config::Config& config, Findings& findings) {
    if (!config.auth.enabled || config.server.tls || api::is_loopback(config.server.host)) return;
    findings.push_back({"api", true,
                        fmt::format("warning: tokens reach {} in plain HTTP (server.insecure_http); make sure that "
                                    "something in front speaks TLS",
                                    config.server.host)});
}

store::Finding validity_of(const http::LoadedTls& tls, const std::string& file) {
    const WallTime now = SystemClock().wall_now();
    const std::string end = rfc3339_millis(tls.valid_until);
    if (now < tls.valid_from) {
        return {"tls", false, fmt::format("{} is not valid before {}", file, rfc3339_millis(tls.valid_from))};
    }
    if (now >= tls.valid_until) {
        return {"tls", false, fmt::format("{} expired at {}; renew it: serve reads the new one by itself", file, end)};
    }
    if (now >= tls.valid_until - kRenewBefore) {
        return {
            "tls", true,
            fmt::format("warning: {} expires at {}, in less than {} days; renew it", file, end, kRenewBefore.count())};
    }
    return {"tls", true, fmt::format("{} is valid until {}", file, end)};
}

void look_at_tls(const config::Config& config, Findings& findings) {
    const auto& files = config.server.tls;
    if (!files) return;
    const auto loaded = http::load_tls(*files);
    if (!loaded) return findings.push_back({"tls", false, loaded.error().message});
    findings.push_back(validity_of(*loaded, files->cert_file));
    std::error_code ignored;
    const auto permissions = std::filesystem::status(files->key_file, ignored).permissions();
    if ((permissions & std::filesystem::perms::others_all) != std::filesystem::perms::none) {
        findings.push_back({"tls key", false,
                            fmt::format("every user of this machine may open {}; run: chmod o= {}", files->key_file,
                                        files->key_file)});
    }
}

void look_at_jwt(const config::Config& config, Findings& findings) {
    if (!config.auth.jwt) return;
    const std::atomic<bool> stopped = false;
    const auto keys =
        daemon::load_jwks(config.jwks, stopped).and_then([](const std::string& text) { return api::parse_jwks(text); });
    if (!keys) {
        return findings.push_back({"jwt keys", false,
                                   fmt::format("{}; until they can be had, no token of {} is accepted",
                                               keys.error().message, config.auth.jwt->rules.issuer)});
    }
    std::string message = fmt::format("{} usable in {}", keys->keys.size(), config.jwks.name());
    if (!keys->left_out.empty()) message += fmt::format("; left out: {}", fmt::join(keys->left_out, "; "));
    findings.push_back({"jwt keys", !keys->keys.empty(), message});
}

/// A doctor changes nothing, and opening SQLite would create the file.
bool is_absent_file(const config::DatabaseConfig& database, Findings& findings) {
    if (database.kind != config::DatabaseTarget::Kind::sqlite) return false;
    const std::filesystem::path path(database.sqlite.path);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return false;
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    const bool usable = access(folder.c_str(), W_OK | X_OK) == 0;
    findings.push_back({"database", usable,
                        usable ? fmt::format("{} is not there yet; serve creates it", path.string())
                               : fmt::format("{} is not there, and {} is no folder this user can write to; create it",
                                             path.string(), folder.string())});
    return true;
}

bool lacks_privileges(const Result<Findings>& inspected) {
    return inspected && std::ranges::any_of(*inspected, [](const store::Finding& finding) {
               return finding.check == "privileges" && !finding.ok;
           });
}

void look_at_schema(const config::DatabaseConfig& config, store::Database& database, const Result<Findings>& inspected,
                    Findings& findings) {
    const auto report = database.schema();
    if (!report) {
        // A user who may not look is told what to grant; that it may not look would only send it here again.
        if (!lacks_privileges(inspected)) findings.push_back({"schema", false, report.error().message});
        return;
    }
    const bool by_itself = config.kind == config::DatabaseTarget::Kind::sqlite || config.auto_migrate;
    const bool upgradable = report->state == store::SchemaState::missing || report->state == store::SchemaState::old;
    if (report->state == store::SchemaState::current) {
        findings.push_back({"schema", true, fmt::format("version {}", report->found_version)});
    } else if (upgradable && by_itself) {
        findings.push_back({"schema", true,
                            fmt::format("version {} of {}; serve will upgrade it by itself", report->found_version,
                                        report->wanted_version)});
    } else {
        findings.push_back({"schema", false, report->advice});
    }
}

void look_at_table(const config::LaneConfig& lane, store::Database& database, Findings& findings) {
    const std::string check = "table of " + lane.options.name;
    auto outbox = database.event_outbox(lane.events.table);
    if (!outbox) return findings.push_back({check, false, outbox.error().message});
    const auto inspected = (*outbox)->inspect();
    if (!inspected) return findings.push_back({check, false, inspected.error().message});
    for (const store::Finding& finding : *inspected) findings.push_back({check, finding.ok, finding.message});
}

void look_at_database(const config::Config& config, Log& log, Findings& findings) {
    if (is_absent_file(config.database, findings)) return;
    const auto database = daemon::open_database(config.database, log);
    if (!database) return findings.push_back({"database", false, database.error().message});
    if (const auto answer = (*database)->ping(kCheckDeadline); !answer) {
        return findings.push_back({"database", false, answer.error().message});
    }
    findings.push_back({"database", true, (*database)->describe()});
    const auto inspected = (*database)->inspect();
    look_at_schema(config.database, **database, inspected, findings);
    if (!inspected) return findings.push_back({"inspection", false, inspected.error().message});
    for (const store::Finding& finding : *inspected) {
        if (finding.check != "schema") findings.push_back(finding);  // said above, with what serve would do about it
    }
    for (const config::LaneConfig& lane : config.lanes) {
        if (lane.outbox == config::OutboxKind::events) look_at_table(lane, **database, findings);
    }
}

std::string good_news(const config::LaneConfig& lane) {
    switch (lane.sink.type) {
        case config::SinkConfig::Type::http:
            return "the receiver accepts connections";
        case config::SinkConfig::Type::kafka:
        case config::SinkConfig::Type::rabbitmq:
        case config::SinkConfig::Type::nats:
            return "the broker answers";
        case config::SinkConfig::Type::console:
            return "messages are printed on standard output";
        case config::SinkConfig::Type::none:
            return "warning: type none throws every message away and calls it sent; it is for benchmarks";
    }
    return "";
}

void look_at_spools(const config::Config& config, Findings& findings) {
    for (const config::SpoolConfig& spool : config.spools) {
        if (const auto note = config::token_note(spool))
            findings.push_back({"spool " + spool.name, true, "warning: " + *note});
    }
}

void look_at_sinks(const config::Config& config, Log& log, Findings& findings) {
    for (const config::LaneConfig& lane : config.lanes) {
        const std::string check = "sink of " + lane.options.name;
        const auto sink = daemon::make_sink(lane.sink, log);
        if (!sink) {
            findings.push_back({check, false, sink.error().message});
            continue;
        }
        const auto answer = (*sink)->check(kCheckDeadline);
        findings.push_back({check, answer.has_value(), answer ? good_news(lane) : answer.error().message});
    }
}

constexpr std::size_t kTopicsNamed = 5;

std::string some_of(const std::vector<std::string>& names) {
    const auto shown = std::min(names.size(), kTopicsNamed);
    std::string out =
        fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < names.size()) out += fmt::format(" and {} more", names.size() - shown);
    return out;
}

void look_at_topics(const config::KafkaConfig& kafka, const deadletter::KafkaInspection& found, Findings& findings) {
    if (!found.unreadable.empty()) {
        findings.push_back({"dead-letter topics", false,
                            fmt::format("{}; let this user describe and read every topic that matches {}",
                                        some_of(found.unreadable), kafka.topic_pattern)});
    } else if (found.topics.empty()) {
        findings.push_back({"dead-letter topics", true,
                            fmt::format("none matches {} yet, or none that this user may see; one that is created is "
                                        "read within ten seconds",
                                        kafka.topic_pattern)});
    } else {
        findings.push_back({"dead-letter topics", true,
                            fmt::format("{} match{} {}: {}", found.topics.size(), found.topics.size() == 1 ? "es" : "",
                                        kafka.topic_pattern, some_of(found.topics))});
    }
    if (!found.group_problem.empty()) {
        findings.push_back({"consumer group", false,
                            fmt::format("the offsets of {} cannot be read: {}; let this user read that group, or name "
                                        "another one in kafka.consumer_group",
                                        kafka.consumer_group, found.group_problem)});
    } else if (!found.topics.empty()) {
        findings.push_back({"consumer group", true, fmt::format("{} can be read", kafka.consumer_group)});
    }
}

/// Where dead letters are read and sent back.
void look_at_kafka(const config::DeadLettersConfig& config, Findings& findings) {
    const config::KafkaConfig& kafka = config.kafka;
    if (!kafka.configured) return;
    if (kafka.brokers.empty()) {
        return findings.push_back({"kafka", true,
                                   "warning: no brokers are named, so dead letters are neither read nor sent back; add "
                                   "kafka.brokers, or leave `kafka` out"});
    }
    const auto found = deadletter::inspect_kafka(config::record_source_options(kafka), kCheckDeadline);
    if (!found) {
        return findings.push_back(
            {"kafka", false,
             fmt::format("{}; check kafka.brokers, that they run, kafka.security_protocol and kafka.sasl_password. "
                         "Until then no dead letter is read or sent back",
                         found.error().message)});
    }
    findings.push_back({"kafka", true, fmt::format("{} broker(s) answer", found->brokers)});
    if (config.ingest) look_at_topics(kafka, *found, findings);
}

void print(const Context& context, const Findings& findings, bool json) {
    if (json) {
        boost::json::array array;
        for (const store::Finding& f : findings) {
            array.push_back({{"check", f.check}, {"ok", f.ok}, {"message", f.message}});
        }
        context.out << boost::json::serialize(array) << "\n";
        return;
    }
    std::size_t width = 0;
    for (const store::Finding& f : findings) width = std::max(width, f.check.size());
    for (const store::Finding& f : findings) {
        context.out << fmt::format("{:<4} {:<{}}  {}\n", f.ok ? "ok" : "BAD", f.check, width, one_line(f.message));
    }
}

int run_doctor(const Call& call) {
    const config::LoadedConfig& loaded = call.loaded;
    NullLog log;  // the findings say it all
    Findings findings;
    look_at_config(loaded, findings);
    if (loaded.problems.empty()) {
        look_at_api(loaded.config, findings);
        look_at_tls(loaded.config, findings);
        look_at_jwt(loaded.config, findings);
        look_at_database(loaded.config, log, findings);
        look_at_sinks(loaded.config, log, findings);
        look_at_spools(loaded.config, findings);
        look_at_kafka(loaded.config.dead_letters, findings);
    }
    print(call.context, findings, call.json);
    if (!loaded.problems.empty()) return kWrongUsage;
    return std::ranges::all_of(findings, &store::Finding::ok) ? kDone : kFailed;
}

}  // namespace

void add_doctor(CommandTree& tree) {
    tree.add(nullptr,
             {"doctor", "Check configuration, database, schema, sinks and the brokers of dead letters",
              "  deliverd doctor\n  deliverd doctor --json", "an array of findings"},
             run_doctor, Needs::configuration);
}

}  // namespace deliverd::cli
