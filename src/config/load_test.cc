#include "config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace deliverd::config {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLane = R"(
lanes:
  memories:
    outbox: memory
    sink: { type: http, url: "http://127.0.0.1:9100/memories" }
)";

class ConfigTest : public testing::Test {
protected:
    LoadedConfig load(const std::string& yaml, const ConfigRequest& request = {}) {
        return load_config_text(yaml, "deliverd.yaml", request, environment());
    }
    std::vector<std::string> problems(const std::string& yaml) { return load(yaml).problems; }

    Environment environment() {
        return [this](const std::string& name) -> std::optional<std::string> {
            const auto found = variables_.find(name);
            return found == variables_.end() ? std::nullopt : std::optional(found->second);
        };
    }

    std::map<std::string, std::string> variables_;
};

/// A folder that goes away with the test.
class FileTest : public ConfigTest {
protected:
    FileTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-config-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
    }
    ~FileTest() override { std::filesystem::remove_all(folder_); }
    std::string write(const std::string& name, const std::string& text) {
        const std::string path = (folder_ / name).string();
        std::ofstream(path) << text;
        return path;
    }
    std::filesystem::path folder_;
};

TEST_F(ConfigTest, ReadsOneDocument) {
    EXPECT_THAT(problems("# nothing\n"), IsEmpty());
    EXPECT_THAT(problems("---\napp: { name: a }\n"), IsEmpty());
    for (const char* yaml : {"app: { name: a }\n---\n- b\n", "---\n,\n", "--- ,\n---\n- b.\n"}) {
        EXPECT_THAT(problems(yaml), Contains(HasSubstr("a second document starts here"))) << yaml;
    }
}

TEST_F(ConfigTest, AProblemIsOneLineOfText) {
    EXPECT_THAT(problems("\"a\\nb\": 1\napp: { name: \"\\e[2J${X\\n}\" }\n"),
                ElementsAre(HasSubstr("deliverd.yaml:1: unknown key \"a b\""),
                            HasSubstr("deliverd.yaml:2: app.name: environment variable \"X \" is not set")));
}

TEST_F(ConfigTest, DefaultsWithoutAFile) {
    const LoadedConfig loaded = load("");
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_EQ(loaded.config.database.kind, DatabaseTarget::Kind::sqlite);
    EXPECT_EQ(loaded.config.database.sqlite.path, "./deliverd.db");
    EXPECT_EQ(loaded.config.server.host, "127.0.0.1");
    EXPECT_EQ(loaded.config.server.port, 8080);
    EXPECT_EQ(loaded.config.shutdown_patience, std::chrono::seconds(30));
    EXPECT_THAT(loaded.config.lanes, IsEmpty());
}

TEST_F(ConfigTest, UnknownKeyNamesTheLineAndTheNearestRightOne) {
    EXPECT_THAT(problems("lanes:\n  memories:\n    outbox: memory\n    lease_secs: 3\n    sink: { type: console }\n"),
                ElementsAre("deliverd.yaml:4: unknown key \"lease_secs\" in lanes.memories; did you mean "
                            "\"lease_seconds\"?"));
    EXPECT_THAT(problems("sever: { port: 1 }\n"),
                ElementsAre("deliverd.yaml:1: unknown key \"sever\"; did you mean \"server\"?"));
}

TEST_F(ConfigTest, AllProblemsAreReportedInTheOrderOfLines) {
    EXPECT_THAT(problems("server:\n  port: http\n  hots: x\nlog:\n  level: loud\n"),
                ElementsAre(HasSubstr("deliverd.yaml:2: server.port must be a whole number from 0 to 65535, not "
                                      "\"http\""),
                            HasSubstr("deliverd.yaml:3: unknown key \"hots\" in server; did you mean \"host\"?"),
                            HasSubstr("deliverd.yaml:5: log.level must be one of: debug, info, warn, error, not "
                                      "\"loud\"")));
}

TEST_F(ConfigTest, RangesAndKindsAreChecked) {
    EXPECT_THAT(problems("server: { port: 70000 }"), ElementsAre(HasSubstr("from 0 to 65535")));
    EXPECT_THAT(problems("server: { shutdown_seconds: -1 }"), ElementsAre(HasSubstr("server.shutdown_seconds")));
    EXPECT_THAT(problems("server: { open_metrics: maybe }"), ElementsAre(HasSubstr("true or false")));
    EXPECT_THAT(problems("server: [1, 2]"), ElementsAre(HasSubstr("server must hold settings")));
    EXPECT_THAT(problems("server: { port: }"), ElementsAre(HasSubstr("server.port has no value")));
    EXPECT_THAT(problems("server: { port: { a: 1 } }"), ElementsAre(HasSubstr("must be a single value")));
    EXPECT_THAT(problems("just text"), ElementsAre(HasSubstr("the file must hold settings")));
}

TEST_F(ConfigTest, DuplicateKeysAndBadYamlAreRefused) {
    EXPECT_THAT(problems("server:\n  port: 1\n  port: 2\n"),
                ElementsAre(HasSubstr("deliverd.yaml:3: key \"port\" is repeated; the first is on line "
                                      "2")));
    EXPECT_THAT(problems("server: { port: 1\nlog"), ElementsAre(HasSubstr("not valid YAML")));
    EXPECT_THAT(problems("a: &a [*a]\n"), testing::Contains(HasSubstr("deliverd.yaml:1: the file is nested deeper")));
    EXPECT_THAT(problems(std::string("log:\0", 5)), ElementsAre(HasSubstr("NUL byte")));
}

TEST_F(ConfigTest, AVariableUnquotedInFlowStyleIsNamed) {
    const char* advice = "within { } or [ ] a variable must be quoted: ";
    EXPECT_THAT(problems("# it's ${HERE} {\nserver: {host: \"${HOST}\", port: ${POORT}}\n"),
                ElementsAre("deliverd.yaml:2: not valid YAML: " + std::string(advice) + "\"${POORT}\""));
    EXPECT_THAT(problems("auth:\n  tokens: [\n    {name: a, sha256: ${SHA}}\n  ]\n"),
                ElementsAre(HasSubstr("deliverd.yaml:3: not valid YAML: " + std::string(advice) + "\"${SHA}\"")));
    EXPECT_THAT(problems("app: {name: don't ${A}}\n"), ElementsAre(HasSubstr("\"${A}\"")));
    EXPECT_THAT(problems("server:\n  host: ${HOST}\nlog: {level: 'x ${A}'\n"),
                ElementsAre(testing::Not(HasSubstr(advice))));
}

TEST_F(ConfigTest, UnfoldingAliasesIsBounded) {
    std::string yaml = "app:\n  name: &a0 [x, x]\n";
    for (int i = 1; i < 30; ++i)
        yaml += "x" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" +
                std::to_string(i - 1) + "]\n";
    EXPECT_THAT(problems(yaml), testing::Contains(HasSubstr("more than 20000 values")));
}

TEST_F(ConfigTest, EnvironmentVariablesStandAnywhereInAValue) {
    variables_ = {{"HOST", "db"}, {"PORT", "9999"}};
    const LoadedConfig loaded =
        load("server: { port: \"${PORT}\" }\ndatabase: { url: \"postgres://app@${HOST}:5433/x\" }\n");
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_EQ(loaded.config.server.port, 9999);
    EXPECT_EQ(loaded.config.database.postgres.conninfo, "postgres://app@db:5433/x");
    EXPECT_THAT(problems("app:\n  name: ${NOT_SET}\n"),
                ElementsAre("deliverd.yaml:2: app.name: environment variable \"NOT_SET\" is not set"));
    EXPECT_THAT(problems("app: { name: \"${HOST\" }"), ElementsAre(HasSubstr("without \"}\"")));
    EXPECT_EQ(load("app: { name: \"$${HOST}\" }").config.app_name, "${HOST}");
}

TEST_F(ConfigTest, DatabaseUrlPrecedence) {
    const std::string yaml = "database: { url: \"sqlite:/file.db\" }\n";
    EXPECT_EQ(load(yaml).config.database.sqlite.path, "/file.db");
    variables_["DATABASE_URL"] = "sqlite:/variable.db";
    EXPECT_EQ(load(yaml).config.database.sqlite.path, "/variable.db");
    EXPECT_EQ(load(yaml, {{}, "sqlite:/flag.db", {}}).config.database.sqlite.path, "/flag.db");
    EXPECT_EQ(load("database: { host: db, name: x }").config.database.sqlite.path, "/variable.db");
}

TEST_F(ConfigTest, DatabaseByKeys) {
    const LoadedConfig loaded = load(
        "database: { host: db, port: 5433, name: app, user: me, password: \"it's\", ssl_mode: verify-full,\n"
        "  ssl_ca_file: /ca.pem, max_open_conns: 25, max_idle_conns: 5, conn_max_lifetime: 5m }\n");
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_EQ(loaded.config.database.kind, DatabaseTarget::Kind::postgres);
    EXPECT_EQ(
        loaded.config.database.postgres.conninfo,
        R"(host='db' port=5433 dbname='app' user='me' password='it\'s' sslmode='verify-full' sslrootcert='/ca.pem')");
    EXPECT_EQ(loaded.config.database.postgres.max_connections, 25U);
    EXPECT_THAT(problems("database: { host: db, name: x, url: \"sqlite:x\" }"), ElementsAre(HasSubstr("both given")));
    EXPECT_THAT(problems("database: { host: db }"), ElementsAre(HasSubstr("database.name")));
}

TEST_F(FileTest, SecretsComeFromFiles) {
    const std::string secret = write("password", "s3cr?t\n");
    const LoadedConfig loaded = load("database:\n  url: postgres://app@db/app\n  password_file: " + secret + "\n");
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_EQ(loaded.config.database.postgres.conninfo, "postgres://app@db/app?password=s3cr%3Ft");
    EXPECT_EQ(shown_value("database.password", *loaded.values.find("database.password")), "***");
    EXPECT_THAT(problems("database: { password_file: /no/such/file }"), ElementsAre(HasSubstr("/no/such/file")));
    EXPECT_THAT(problems("database: { password: x, password_file: " + secret + " }"),
                ElementsAre(HasSubstr("are both given")));
}

TEST_F(FileTest, ASecretFileIsReadAgainForEachConnection) {
    const std::string secret = write("password", "old\n");
    const std::string file = "password_file: " + secret;
    const auto by_url = load("database: { url: \"postgres://app@db/app\", " + file + " }").config.database.postgres;
    const auto by_keys = load("database: { host: db, name: app, " + file + " }").config.database.postgres;
    write("password", "new\n");
    EXPECT_EQ(by_url.refresh_conninfo(), "postgres://app@db/app?password=new");
    EXPECT_EQ(by_keys.refresh_conninfo(), "host='db' port=5432 dbname='app' password='new'");
    std::filesystem::remove(secret);
    EXPECT_EQ(by_url.refresh_conninfo(), "postgres://app@db/app?password=old");
    EXPECT_FALSE(
        load("database: { url: \"postgres://app@db/app\", password: x }").config.database.postgres.refresh_conninfo);
}

TEST_F(FileTest, AnEmptySecretFileIsNamed) {
    const std::string secret = write("password", "\n");
    EXPECT_THAT(problems("database:\n  url: postgres://app@db/app\n  password_file: " + secret + "\n"),
                ElementsAre("deliverd.yaml:3: database.password_file: " + secret + " is empty; put the secret there"));
}

TEST_F(ConfigTest, WhatLibpqWouldRefuseUnaskedIsReportedWithItsLine) {
    EXPECT_THAT(problems("database:\n  url: postgres://app@db/app?sslmode=bogus\n"),
                ElementsAre(HasSubstr("deliverd.yaml:2: database.url: sslmode \"bogus\" does not exist")));
    EXPECT_THAT(problems("database:\n  url: postgres://app@db:abc/app\n"),
                ElementsAre(testing::AllOf(HasSubstr("deliverd.yaml:2: database.url: "), HasSubstr("port is not"),
                                           testing::Not(HasSubstr("abc")))));
    EXPECT_THAT(problems("database:\n  url: postgres://app@db/app?no_such=1\n"),
                ElementsAre(HasSubstr("cannot be read")));
    EXPECT_THAT(problems("database:\n  url: postgres://app@a:5432,b:5433/app?sslmode=require\n"), IsEmpty());
}

TEST_F(FileTest, WhichFileIsRead) {
    const std::string one = write("one.yaml", "app: { name: one }\n");
    const std::string two = write("two.yaml", "app: { name: two }\n");
    variables_["CONFIG_PATH"] = one;
    EXPECT_EQ(load_config({}, environment()).config.app_name, "one");
    EXPECT_EQ(load_config({two, {}, {}}, environment()).config.app_name, "two");
    const LoadedConfig absent = load_config({(folder_ / "no.yaml").string(), {}, {}}, environment());
    EXPECT_THAT(absent.problems, ElementsAre(HasSubstr("No such file")));
    EXPECT_THAT(load_config({folder_.string(), {}, {}}, environment()).problems, ElementsAre(HasSubstr("a folder")));
}

TEST_F(ConfigTest, AFileThatFailsWhileItIsReadIsNotTakenForAnEmptyOne) {
    // The kernel opens this file for everyone and answers EIO for its first page, which no process maps.
    EXPECT_THAT(load_config({"/proc/self/mem", {}, {}}, environment()).problems,
                ElementsAre("/proc/self/mem: cannot read the configuration: Input/output error"));
}

TEST_F(ConfigTest, Lanes) {
    const LoadedConfig loaded = load(std::string(kLane) +
                                     "    batch_size: 7\n    lease_seconds: 1.5\n"
                                     "    retry: { max: 3, base_seconds: 0.5, cap_seconds: 10, jitter: 0 }\n");
    ASSERT_THAT(loaded.problems, IsEmpty());
    ASSERT_EQ(loaded.config.lanes.size(), 1U);
    const LaneConfig& lane = *loaded.config.find_lane("memories");
    EXPECT_EQ(lane.options.batch_size, 7);
    EXPECT_EQ(lane.options.lease, std::chrono::milliseconds(1500));
    EXPECT_EQ(lane.options.retry.base_seconds, 0.5);
    EXPECT_EQ(lane.options.retry.cap_seconds, 10);
    EXPECT_TRUE(lane.options.retry.gives_up_at(3));
    EXPECT_FALSE(lane.options.retry.gives_up_at(2));
    EXPECT_EQ(lane.sink.type, SinkConfig::Type::http);
    EXPECT_EQ(lane.sink.http.timeout, std::chrono::seconds(5));
    EXPECT_EQ(loaded.config.find_lane("other"), nullptr);
}

TEST_F(ConfigTest, ALaneNeedsAnOutboxAndASink) {
    EXPECT_THAT(problems("lanes:\n  a:\n    outbox: memory\n"),
                ElementsAre(HasSubstr("deliverd.yaml:2: lanes.a needs a sink")));
    EXPECT_THAT(problems("lanes:\n  a:\n    sink: { type: console }\n"),
                ElementsAre(HasSubstr("deliverd.yaml:2: lanes.a needs an outbox")));
    EXPECT_THAT(problems("lanes:\n  a: { outbox: memory, sink: { type: http } }\n"),
                ElementsAre(HasSubstr("lanes.a.sink.url must start with http")));
    EXPECT_THAT(problems("kafka: { brokers: [x] }"), IsEmpty());
    EXPECT_THAT(problems("kafka: { consumer_group: x }"), IsEmpty());
    EXPECT_THAT(problems("spools: { hooks: { path: x } }"), IsEmpty());
    EXPECT_THAT(problems("spools:\n  hooks: {}\n"), ElementsAre(HasSubstr("spools.hooks needs a path")));
    EXPECT_THAT(problems("spools: { hooks: { path: x, token_env: NOT_THERE } }"), IsEmpty());
    EXPECT_THAT(problems("lanes:\n  a b: {}\n"), ElementsAre(HasSubstr("\"a b\" cannot be a name")));
}

TEST_F(ConfigTest, WhatTheSinkWouldRefuseIsReportedWithItsLine) {
    const auto sink = [&](const std::string& settings) {
        return problems("lanes:\n  a:\n    outbox: memory\n    sink:\n      type: http\n" + settings);
    };
    for (const char* url : {"http://", "http://bad host/", "http://127.0.0.1:99999/", "ftp://h/"}) {
        EXPECT_THAT(sink("      url: \"" + std::string(url) + "\"\n"),
                    ElementsAre(HasSubstr("deliverd.yaml:6: lanes.a.sink.url ")))
            << url;
    }
    EXPECT_THAT(sink("      url: \"http://u:geheim@h:x/\"\n"), ElementsAre(testing::Not(HasSubstr("geheim"))));
    const std::string url = "      url: http://h/\n";
    EXPECT_THAT(sink(url + "      headers:\n        A: b\n        X Y: b\n"),
                ElementsAre(HasSubstr("deliverd.yaml:9: lanes.a.sink.headers: header 'X Y' cannot be sent")));
    EXPECT_THAT(sink(url + "      headers: { X: \"geheim\\nb\" }\n"),
                ElementsAre(testing::AllOf(HasSubstr("deliverd.yaml:7: lanes.a.sink.headers: header 'X'"),
                                           testing::Not(HasSubstr("geheim")))));
    EXPECT_THAT(sink(url + "      token: \"geheim\\nb\"\n"),
                ElementsAre("deliverd.yaml:7: lanes.a.sink.token has a line break or another control character"));
}

TEST_F(ConfigTest, AHeaderThatDeliverdSetsItselfIsRefused) {
    const auto sink = [&](const std::string& outbox, const std::string& settings) {
        return problems("lanes:\n  a:\n    outbox: " + outbox +
                        "\n    sink:\n      type: http\n      url: http://h/\n" + settings);
    };
    for (const std::string name : {"Idempotency-Key", "idempotency-key", "Content-Type"}) {
        EXPECT_THAT(sink("memory", "      headers:\n        A: b\n        " + name + ": geheim\n"),
                    ElementsAre("deliverd.yaml:9: lanes.a.sink.headers: deliverd sets " + name +
                                " itself, so it would be sent twice; remove it here"));
    }
    EXPECT_THAT(sink("orders", "      headers: { x-trace-id: b }\n"),
                ElementsAre(HasSubstr("lanes.a.sink.headers: deliverd sets x-trace-id itself")));
    EXPECT_THAT(sink("memory", "      headers: { X-Trace-Id: b, User-Agent: c, Authorization: d }\n"),
                testing::IsEmpty());
    EXPECT_THAT(sink("memory", "      headers: { Content-Length: \"1\" }\n"),
                ElementsAre(HasSubstr("header 'Content-Length' cannot be sent")));
    for (const std::string token : {"token: geheim", "token_file: /t"}) {
        EXPECT_THAT(sink("memory", "      " + token + "\n      headers: { authorization: geheim }\n"),
                    ElementsAre(testing::AllOf(HasSubstr("lanes.a.sink.headers: deliverd sets authorization itself"),
                                               testing::Not(HasSubstr("geheim")))));
    }
}

TEST_F(ConfigTest, TwoLanesOnOneOutboxAreRefused) {
    EXPECT_THAT(problems("lanes:\n  a: { outbox: memory, sink: { type: console } }\n"
                         "  b: { outbox: memory, sink: { type: none } }\n"),
                ElementsAre(HasSubstr("deliverd.yaml:3: lanes.b.outbox: lane \"a\" has outbox memory already")));
}

TEST_F(ConfigTest, FlagsReplaceSettingsAndAreCheckedLikeThem) {
    const LoadedConfig good = load(kLane, {{}, {}, {{"lanes.memories.batch_size", "9", "--batch-size"}}});
    EXPECT_THAT(good.problems, IsEmpty());
    EXPECT_EQ(good.config.lanes.front().options.batch_size, 9);
    const LoadedConfig bad = load(kLane, {{}, {}, {{"lanes.memories.batch_size", "0", "--batch-size"}}});
    EXPECT_THAT(bad.problems, ElementsAre("--batch-size must be a whole number from 1 to 10000, not \"0\""));
}

TEST_F(ConfigTest, AnEmptyListOfTokensIsNotTakenForNone) {
    EXPECT_THAT(problems("auth:\n  tokens: []\n"), ElementsAre(HasSubstr("deliverd.yaml:2: auth.tokens is empty")));
    EXPECT_THAT(problems("auth: { mode: none }\n"), IsEmpty());
}

TEST_F(ConfigTest, AnOpenAddressNeedsAuth) {
    EXPECT_THAT(problems("server:\n  host: 0.0.0.0\n"),
                ElementsAre(HasSubstr("deliverd.yaml:2: server.host 0.0.0.0 can be reached from outside")));
    EXPECT_THAT(problems("server: { host: 0.0.0.0 }\nauth: { mode: none }\n"), IsEmpty());
    const std::string sha(64, 'a');
    const std::string tokens = "auth: { tokens: [ { name: ops, role: operator, sha256: " + sha + " } ] }\n";
    EXPECT_THAT(problems("server: { host: \"::\" }\n" + tokens), ElementsAre(HasSubstr("in plain HTTP")));
    EXPECT_THAT(problems("server: { host: \"::\", insecure_http: true }\n" + tokens), IsEmpty());
    EXPECT_THAT(problems(tokens), IsEmpty());
    EXPECT_THAT(problems("auth: { tokens: [ { name: ops, expires_at: soon, sha256: " + sha + " } ] }"),
                ElementsAre(HasSubstr("auth.tokens[0].expires_at must be a time")));
    EXPECT_THAT(problems("auth: { tokens_file: /no/such/file }"),
                ElementsAre(HasSubstr("/no/such/file: No such file")));
    EXPECT_THAT(problems("auth: { tokens: [ { name: ops, sha256: short } ] }"), ElementsAre(HasSubstr("64 hex")));
    EXPECT_THAT(problems("auth: { mode: tokens }"), ElementsAre(HasSubstr("auth.tokens is empty")));
    EXPECT_TRUE(load("auth: { tokens_file: /dev/null }").config.auth.enabled) << "without tokens nobody gets in";
}

TEST_F(ConfigTest, WithoutTokensTheNamesOfARequestMustDo) {
    const auto doors = [this](const std::string& yaml) {
        const LoadedConfig loaded = load(yaml);
        EXPECT_THAT(loaded.problems, IsEmpty());
        return loaded.config.auth.doors;
    };
    const auto usual = doors("");
    EXPECT_TRUE(usual.check_host);
    EXPECT_TRUE(usual.check_origin);
    const auto named = doors("auth: { mode: none }\nserver: { allowed_hosts: [a.internal, \"b.internal:1\"] }\n");
    EXPECT_TRUE(named.check_host);
    EXPECT_THAT(named.allowed_hosts, ElementsAre("a.internal", "b.internal:1"));
    EXPECT_FALSE(doors("auth: { mode: none }\n").check_host);
    EXPECT_TRUE(doors("auth: { mode: none }\n").check_origin);
    const auto tokens = doors("auth: { tokens: [ { name: a, sha256: " + std::string(64, 'a') + " } ] }\n");
    EXPECT_FALSE(tokens.check_host);
    EXPECT_FALSE(tokens.check_origin);
    for (const auto* bad : {"http://a", "a b", "*", "a:b"}) {
        EXPECT_THAT(problems(std::string("server: { allowed_hosts: [ \"") + bad + "\" ] }"),
                    ElementsAre(HasSubstr("is not a name or name:port")));
    }
}

TEST_F(ConfigTest, TheLongestBodyMustFitIntoTheBudget) {
    EXPECT_THAT(problems("server: { max_body_bytes: 2048, max_total_body_bytes: 1024 }"),
                ElementsAre(HasSubstr("server.max_total_body_bytes is less than server.max_body_bytes")));
}

TEST(Durations, NumbersFractionsAndUnits) {
    EXPECT_EQ(parse_seconds("90"), 90);
    EXPECT_EQ(parse_seconds("1.5"), 1.5);
    EXPECT_EQ(parse_seconds("500ms"), 0.5);
    EXPECT_EQ(parse_seconds("5m"), 300);
    EXPECT_EQ(parse_seconds("7d"), 7 * 86400);
    for (const char* bad : {"", "s", "1x", "nan", "inf", "1 s", "--1"}) {
        EXPECT_EQ(parse_seconds(bad), std::nullopt) << bad;
    }
}

TEST(DatabaseUrl, KindsAndRefusals) {
    EXPECT_EQ(parse_database_url("sqlite:a.db", "")->target, "a.db");
    EXPECT_EQ(parse_database_url("postgresql://h/d", "")->kind, DatabaseTarget::Kind::postgres);
    EXPECT_EQ(parse_database_url("postgres://u:own@h/d", "other")->target, "postgres://u:own@h/d");
    EXPECT_EQ(parse_database_url("postgres://u@h/d?sslmode=require", "p&w")->target,
              "postgres://u@h/d?sslmode=require&password=p%26w");
    EXPECT_THAT(parse_database_url("sqlite::memory:", "").error().message, HasSubstr("name a file"));
    EXPECT_FALSE(parse_database_url("sqlite:", "").has_value());
    EXPECT_FALSE(parse_database_url("sqlite:///x.db", "").has_value());
    EXPECT_THAT(parse_database_url("mysql://u:secret@h/d", "").error().message,
                testing::AllOf(HasSubstr("mysql://u:***@h/d"), testing::Not(HasSubstr("secret"))));
}

TEST(DatabaseUrl, PasswordsAreMaskedWhereverTheyStand) {
    EXPECT_EQ(mask_url("postgres://u:secret@h:1/d"), "postgres://u:***@h:1/d");
    EXPECT_EQ(mask_url("postgres://u:s/e@c?ret@h/d"), "postgres://u:***@h/d");
    EXPECT_EQ(mask_url("postgres://h/d?sslpassword=a&password=b&x=1"),
              "postgres://h/d?sslpassword=***&password=***&x=1");
    EXPECT_EQ(mask_url("postgres://u@h:5432/d"), "postgres://u@h:5432/d");
    EXPECT_EQ(mask_url("sqlite:x.db"), "sqlite:x.db");
    EXPECT_EQ(mask_url("postgres://u:se=cr/et@h/d?x=1"), "postgres://u:***@h/d?x=1");
    EXPECT_EQ(mask_url("host=h password=secret dbname=d"), "***");
    EXPECT_EQ(mask_url("mysql:u:secret@h"), "***");
    EXPECT_EQ(mask_url("app.db"), "app.db");
}

TEST(DatabaseUrl, APasswordThatWouldBeReadAsAHostIsRefusedUnseen) {
    for (const char* url : {"postgres://app:SEC@RET@h:1/app", "postgres://app:SEC/RET@h:1/app",
                            "host=h user=app password=SECRET dbname=app"}) {
        const auto target = parse_database_url(url, "");
        ASSERT_FALSE(target) << url;
        EXPECT_THAT(target.error().message, testing::Not(testing::AnyOf(HasSubstr("SEC"), HasSubstr("RET"))));
    }
    EXPECT_THAT(parse_database_url("postgres://app:SEC@RET@h/app", "").error().message, HasSubstr("write %40 for @"));
    EXPECT_TRUE(parse_database_url("postgres://app:a%40b@h/app?options=a@b", ""));
    EXPECT_EQ(parse_database_url("postgres://app:a=b@h/app", "other")->target, "postgres://app:a=b@h/app");
}

TEST(HttpUrl, SecretsAreMaskedWhereverTheyStand) {
    EXPECT_EQ(mask_http_url("http://user:secret@h:9100/in?api_key=secret&x&y="),
              "http://user:***@h:9100/in?api_key=***&***&y=");
    EXPECT_EQ(mask_http_url("https://secret@h/in"), "https://***@h/in");
    EXPECT_EQ(mask_http_url("http://h:9100/@me"), "http://h:9100/@me");
    EXPECT_EQ(mask_http_url("http://user:sec@ret@h?secret"), "http://user:***@h?***");
}

}  // namespace
}  // namespace deliverd::config
