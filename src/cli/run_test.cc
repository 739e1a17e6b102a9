#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/sha256.h"
#include "cli/command.h"
#include "daemon/parts.h"

namespace deliverd::cli {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Runs commands in-process on a SQLite file of the test's own.
class CommandTest : public testing::Test {
protected:
    CommandTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-command-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        variables_["DATABASE_URL"] = "sqlite:" + (folder_ / "test.db").string();
        variables_["CONFIG_PATH"] = write("deliverd.yaml",
                                          "log: { level: error }\n"
                                          "lanes:\n  memories: { outbox: memory, sink: { type: none } }\n");
    }
    ~CommandTest() override { std::filesystem::remove_all(folder_); }

    std::string write(const std::string& name, const std::string& text) {
        const std::string path = (folder_ / name).string();
        std::ofstream(path) << text;
        return path;
    }

    int run(const std::vector<std::string>& words, const std::string& input = "") {
        std::istringstream in(input);
        std::ostringstream out;
        std::ostringstream err;
        const Context context{in, out, err, [this](const std::string& name) -> std::optional<std::string> {
                                  const auto found = variables_.find(name);
                                  return found == variables_.end() ? std::nullopt : std::optional(found->second);
                              }};
        const int status = cli::run(words, context);
        out_ = out.str();
        err_ = err.str();
        return status;
    }

    std::string shown(const std::string& id, const char* column) {
        EXPECT_EQ(run({"lease", "show", "--id", id}), 0) << err_;
        return boost::json::serialize(boost::json::parse(out_).at(column));
    }

    std::filesystem::path folder_;
    std::map<std::string, std::string> variables_;
    std::string out_;
    std::string err_;
};

TEST_F(CommandTest, HelpAndVersion) {
    EXPECT_EQ(run({"--version"}), 0);
    EXPECT_EQ(out_, "deliverd " + std::string(daemon::version()) + "\n");
    EXPECT_EQ(run({"--help"}), 0);
    for (const char* command : {"serve", "demo", "worker", "migrate", "lease", "config", "doctor", "bench"}) {
        EXPECT_THAT(out_, HasSubstr(std::string("\n  ") + command));
        EXPECT_EQ(run({command, "--help"}), 0);
        EXPECT_THAT(out_, HasSubstr("Examples:"));
        EXPECT_EQ(run({"--help"}), 0);
    }
}

TEST_F(CommandTest, UnknownWordsNameTheNearestRightOne) {
    const auto expect = [&](const std::vector<std::string>& words, const std::string& line) {
        EXPECT_EQ(run(words), 2);
        EXPECT_EQ(err_, line);
        EXPECT_EQ(out_, "");
    };
    expect({"serv"}, "deliverd: unknown command \"serv\"; did you mean \"serve\"?\n");
    expect({"lease", "clam"}, "deliverd: unknown command \"clam\" for deliverd lease; did you mean \"claim\"?\n");
    expect({"lease", "ack", "--idd", "3"},
           "deliverd: unknown flag \"--idd\" for deliverd lease ack; did you mean \"--id\"?\n");
    expect({"serve", "--confg=x"},
           "deliverd: unknown flag \"--confg\" for deliverd serve; did you mean \"--config\"?\n");
    expect({"--versoin"}, "deliverd: unknown flag \"--versoin\"; did you mean \"--version\"?\n");
    expect({}, "deliverd: name a command; `deliverd --help` lists them\n");
    expect({"lease"}, "deliverd: name a command; `deliverd lease --help` lists them\n");
    expect({"lease", "enq"}, "deliverd: unknown command \"enq\" for deliverd lease; did you mean \"enqueue\"?\n");
}

TEST_F(CommandTest, AnOrderMayBeNestedAsDeepAsTheApiTakesIt) {
    std::string nested = "1";
    for (int i = 0; i < 60; ++i) nested = R"({"a":)" + nested + "}";
    const std::string order = R"({"symbol":"AAPL","intent":"BUY","qty":1,"meta":)" + nested;
    EXPECT_EQ(run({"orders", "submit", "--file", "-"}, order + R"(,"idempotency_key":"order-\u0030001"})"), 0) << err_;
    EXPECT_THAT(out_, HasSubstr(R"("idempotency_key":"order-0001")"));
    for (const std::string key : {"", R"(,"idempotency_key":1)"}) {
        EXPECT_EQ(run({"orders", "submit", "--file", "-"}, order + key + "}"), 1);
        EXPECT_THAT(err_, HasSubstr("VALIDATION_ERROR: the order is not valid; invalid fields: idempotency_key"))
            << key;
    }
}

TEST_F(CommandTest, HelpDoesNotExcuseUnknownWords) {
    EXPECT_EQ(run({"lease", "bogus", "--help"}), 2);
    EXPECT_THAT(err_, HasSubstr("unknown command \"bogus\""));
    EXPECT_EQ(run({"serve", "--help", "--bogus"}), 2);
    EXPECT_THAT(err_, HasSubstr("unknown flag \"--bogus\""));
    EXPECT_EQ(run({"--version", "extra"}), 2);
    EXPECT_THAT(err_, HasSubstr("\"extra\""));
}

TEST_F(CommandTest, HelpIsAWordToo) {
    EXPECT_EQ(run({"--help"}), 0);
    const std::string whole = out_;
    EXPECT_EQ(run({"help"}), 0);
    EXPECT_EQ(out_, whole);
    EXPECT_EQ(run({"lease", "claim", "--help"}), 0);
    const std::string claim = out_;
    EXPECT_EQ(run({"help", "lease", "claim"}), 0);
    EXPECT_EQ(out_, claim);
    EXPECT_EQ(run({"config", "--help"}), 0);
    EXPECT_THAT(out_, HasSubstr("\n  docs "));
}

TEST_F(CommandTest, WrongNumbersAreToldInPlainWords) {
    const auto expect = [&](std::vector<std::string> words, const std::string& line) {
        EXPECT_EQ(run(words), 2);
        EXPECT_EQ(err_, "deliverd: " + line + "\n");
    };
    const std::vector<std::string> claim{"lease", "claim", "--worker", "w"};
    const auto claim_with = [&](const std::string& flag, const std::string& text) {
        std::vector<std::string> words = claim;
        words.insert(words.end(), {flag, text});
        return words;
    };
    expect(claim_with("--limit", "2147483648"),
           "--limit must be a whole number from 1 to 2147483647, not \"2147483648\"");
    expect(claim_with("--lease-seconds", "-1"),
           "--lease-seconds must be seconds (or 500ms, 5m) from 0 to 1000000000, not \"-1\"");
    expect(claim_with("--worker", "v"), "--worker was given 2 times; give it once");
    expect({"lease", "claim", "--worker"}, "--worker needs a value");
    expect({"lease", "claim", "--worker", ""}, "--worker must not be empty");
    expect({"lease", "claim", "--worker", "w", "--json=x"}, "--json takes no value");
    expect({"lease", "show", "--id", "x"}, "--id must be a whole number, not \"x\"");
    expect({"lease", "enqueue", "--space", "s", "--payload", "p", "--item-id", "1.5"},
           "--item-id must be a whole number, not \"1.5\"");
    expect({"demo", "--port", "99999"}, "--port must be a whole number from 0 to 65535, not \"99999\"");
    expect({"demo", "--seconds", "abc"}, "--seconds must be seconds (or 500ms, 5m) from 0 to 86400, not \"abc\"");
    expect({"demo", "--rate", "0"}, "--rate must be a number from 0.1 to 5000, not \"0\"");
    expect({"bench", "--rows", "0"}, "--rows must be a whole number from 1 to 100000000, not \"0\"");
}

TEST_F(CommandTest, WrongUsageIsTwo) {
    EXPECT_EQ(run({"lease", "ack", "--id", "x", "--worker", "w"}), 2);
    EXPECT_THAT(err_, HasSubstr("--id"));
    EXPECT_EQ(run({"worker", "--lane", "memories"}), 2);
    EXPECT_THAT(err_, HasSubstr("--once or --loop"));
    EXPECT_EQ(run({"worker", "--lane", "memories", "--once", "--worker-id", ""}), 2);
    EXPECT_EQ(run({"worker", "--lane", "memorys", "--once"}), 2);
    EXPECT_EQ(err_, "deliverd: no lane \"memorys\"; did you mean \"memories\"?\n");
    EXPECT_EQ(run({"worker", "--lane", "a.b[0]", "--once", "--batch-size", "5"}), 2);
    EXPECT_THAT(err_, StartsWith("deliverd: no lane \"a.b[0]\""));
    EXPECT_EQ(run({"worker", "--lane", "memories", "--once", "--batch-size", "0"}), 2);
    EXPECT_THAT(err_, StartsWith("deliverd: --batch-size must be a whole number from 1"));
    EXPECT_EQ(run({"lease", "claim", "--worker", ""}), 2);
    EXPECT_EQ(run({"lease", "claim", "--worker", "w", "--limit", "0"}), 2);
    EXPECT_EQ(run({"lease", "claim", "--worker", "w", "--lease-seconds", "-1"}), 2);
    EXPECT_EQ(run({"serve", "--database", "sqlite::memory:"}), 2);
    EXPECT_THAT(err_, HasSubstr("--database"));
}

TEST_F(CommandTest, EveryProblemOfAConfigurationIsALine) {
    const std::string path = write("bad.yaml", "server:\n  prt: 1\n  port: x\n");
    EXPECT_EQ(run({"config", "check", "--config", path}), 2);
    EXPECT_EQ(err_, "deliverd: " + path + ":2: unknown key \"prt\" in server; did you mean \"port\"?\n" +
                        "deliverd: " + path + ":3: server.port must be a whole number from 0 to 65535, not \"x\"\n");
    EXPECT_EQ(run({"config", "check"}), 0);
    EXPECT_THAT(out_, HasSubstr("ok; lanes: memories"));
}

TEST_F(CommandTest, ConfigShowNamesOriginsAndMasksSecrets) {
    const std::string path =
        write("shown.yaml",
              "database: { password: geheim }\nlanes:\n  m:\n    outbox: memory\n"
              "    sink: { type: http, url: \"http://me:geheim@h/?key=geheim\", headers: { X-Key: geheim }, token: "
              "geheim }\n");
    variables_["DATABASE_URL"] = "postgres://me:geheim@h/d";
    EXPECT_EQ(run({"config", "show", "--json", "--config", path}), 0);
    EXPECT_THAT(out_, testing::Not(HasSubstr("geheim")));
    EXPECT_THAT(out_,
                HasSubstr(R"({"setting":"database.url","value":"postgres://me:***@h/d","origin":"DATABASE_URL"})"));
    EXPECT_THAT(out_, HasSubstr(R"({"setting":"server.port","value":"8080","origin":"default"})"));
    EXPECT_THAT(out_, HasSubstr(R"("setting":"lanes.m.sink.headers.X-Key","value":"***","origin":")" + path + ":5"));
    EXPECT_EQ(run({"config", "show", "--config", path}), 0);
    EXPECT_THAT(out_, testing::Not(HasSubstr("geheim")));
}

TEST_F(CommandTest, LeaseFromTheShell) {
    EXPECT_EQ(run({"lease", "enqueue", "--space", "notes", "--payload", "hello", "--item-id", "7"}), 0) << err_;
    const std::string id = out_.substr(0, out_.size() - 1);
    EXPECT_EQ(run({"lease", "claim", "--worker", "me"}), 0);
    const auto row = boost::json::parse(out_).as_object();
    std::vector<std::string> columns;
    for (const auto& column : row) columns.emplace_back(column.key());
    EXPECT_THAT(columns, testing::ElementsAre("outbox_id", "item_id", "target_space", "payload_md", "payload_sha",
                                              "status", "retry_count", "next_attempt_at", "locked_at", "locked_by",
                                              "last_error", "created_at", "updated_at"));
    EXPECT_EQ(row.at("payload_md"), "hello");
    EXPECT_EQ(row.at("item_id"), 7);
    EXPECT_EQ(run({"lease", "ack", "--id", id, "--worker", "you"}), 1);
    EXPECT_EQ(out_, "false\n");
    EXPECT_EQ(run({"lease", "renew", "--id", id, "--worker", "me"}), 0);
    EXPECT_EQ(out_, "true\n");
    EXPECT_EQ(run({"lease", "ack", "--id", id, "--worker", "me", "--memory-id", "m-9"}), 0);
    EXPECT_EQ(shown(id, "status"), "\"sent\"");
    const std::string sha(row.at("payload_sha").as_string());
    EXPECT_EQ(run({"lease", "dedup", "--space", "notes", "--sha", sha}), 0);
    EXPECT_EQ(out_, "{\"outbox_id\":" + id + ",\"memory_id\":\"m-9\"}\n");
    EXPECT_EQ(run({"lease", "dedup", "--space", "other", "--sha", sha}), 0);
    EXPECT_EQ(out_, "null\n");
    EXPECT_EQ(run({"lease", "show", "--id", "4711"}), 1);
    EXPECT_EQ(err_, "deliverd: no row 4711 in outbox_memory of SQLite " + (folder_ / "test.db").string() + "\n");
}

TEST_F(CommandTest, LeaseFailAndDead) {
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "one"}), 0);
    EXPECT_EQ(run({"lease", "claim", "--worker", "me", "--json"}), 0);
    EXPECT_TRUE(boost::json::parse(out_).is_array());
    EXPECT_EQ(run({"lease", "fail", "--id", "1", "--worker", "me", "--error", "e", "--next-attempt-at", "soon"}), 2);
    EXPECT_THAT(err_, HasSubstr("not an RFC 3339 time"));
    EXPECT_EQ(run({"lease", "fail", "--id", "1", "--worker", "me", "--error", "e", "--next-attempt-at",
                   "2020-01-01T00:00:00+01:00"}),
              0);
    EXPECT_EQ(shown("1", "retry_count"), "1");
    EXPECT_EQ(run({"lease", "claim", "--worker", "me"}), 0);
    EXPECT_EQ(run({"lease", "dead", "--id", "1", "--worker", "me", "--error", "enough"}), 0);
    EXPECT_EQ(shown("1", "status"), "\"dead\"");
}

TEST_F(CommandTest, StandardInputIsADashAndAnIdIsAWordOrAFlag) {
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "-"}, "from a pipe"), 0);
    EXPECT_EQ(shown("1", "payload_md"), "\"from a pipe\"");
    EXPECT_EQ(run({"lease", "show", "1"}), 0);
    const std::string by_word = out_;
    EXPECT_EQ(run({"lease", "show", "--id", "1"}), 0);
    EXPECT_EQ(out_, by_word);
    EXPECT_EQ(run({"lease", "show"}), 2);
    EXPECT_EQ(run({"lease", "show", "one"}), 2);
    EXPECT_THAT(err_, HasSubstr("--id must be a whole number, not \"one\""));
}

TEST_F(CommandTest, PayloadsFromFilesAndStandardInputAreBounded) {
    const std::string path = write("note.md", "from a file");
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "@" + path}), 0);
    EXPECT_EQ(shown("1", "payload_md"), "\"from a file\"");
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "@-"}, "from a pipe"), 0);
    EXPECT_EQ(shown("2", "payload_md"), "\"from a pipe\"");
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "@-"}, std::string(1024 * 1024 + 1, 'x')), 2);
    EXPECT_THAT(err_, HasSubstr("1048576 bytes"));
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "@/no/such"}), 2);
    EXPECT_THAT(err_, HasSubstr("No such file"));
    EXPECT_THAT(err_, HasSubstr("write @@/no/such for a text"));
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "@" + folder_.string()}), 2);
    EXPECT_THAT(err_, HasSubstr("Is a directory"));
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "@@alice hi"}), 0);
    EXPECT_EQ(out_, "3\n");
    EXPECT_EQ(shown("3", "payload_md"), "\"@alice hi\"");
}

TEST_F(CommandTest, AMistypedSqliteFileIsNotMadeByCommandsThatNeedOne) {
    const std::string typo = (folder_ / "typo.db").string();
    const std::vector<std::vector<std::string>> commands{
        {"lease", "claim", "--worker", "w"},
        {"lease", "ack", "--id", "1", "--worker", "w"},
        {"lease", "fail", "--id", "1", "--worker", "w", "--error", "e", "--next-attempt-at", "2020-01-01T00:00:00Z"},
        {"lease", "dead", "--id", "1", "--worker", "w", "--error", "e"},
        {"lease", "renew", "--id", "1", "--worker", "w"},
        {"lease", "dedup", "--space", "s", "--sha", std::string(64, 'a')},
        {"lease", "show", "--id", "1"},
        {"worker", "--lane", "memories", "--once"}};
    for (std::vector<std::string> words : commands) {
        words.insert(words.end(), {"--database", "sqlite:" + typo});
        EXPECT_EQ(run(words), 1);
        EXPECT_THAT(err_, StartsWith("deliverd: SQLite database " + typo + " does not exist")) << words[1];
        EXPECT_FALSE(std::filesystem::exists(typo)) << words[1];
    }
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "p", "--database", "sqlite:" + typo}), 0);
}

TEST_F(CommandTest, JsonIsAcceptedByEveryLeaseCommand) {
    const auto answer = [&](std::vector<std::string> words) {
        words.emplace_back("--json");
        run(words);
        EXPECT_EQ(err_, "") << words[1];
        return boost::json::serialize(boost::json::parse(out_));
    };
    EXPECT_EQ(answer({"lease", "enqueue", "--space", "s", "--payload", "p"}), "1");
    EXPECT_EQ(answer({"lease", "renew", "--id", "1", "--worker", "w"}), "false");
    EXPECT_EQ(answer({"lease", "ack", "--id", "1", "--worker", "w"}), "false");
    EXPECT_EQ(answer({"lease", "dead", "--id", "1", "--worker", "w", "--error", "e"}), "false");
    EXPECT_EQ(answer({"lease", "dedup", "--space", "s", "--sha", std::string(64, '0')}), "null");
}

TEST_F(CommandTest, ADigestIsSixtyFourHexDigits) {
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "hello"}), 0);
    EXPECT_EQ(run({"worker", "--lane", "memories", "--once"}), 0);
    // printf hello | sha256sum
    EXPECT_EQ(run({"lease", "dedup", "--space", "s", "--sha",
                   "2CF24DBA5FB0A30E26E83B2AC5B9E29E1B161E5C1FA7425E73043362938B9824"}),
              0);
    EXPECT_THAT(out_, StartsWith("{\"outbox_id\":1,"));
    for (const std::string& sha : {std::string("zz"), std::string(63, 'a'), std::string(64, 'g'), std::string()}) {
        EXPECT_EQ(run({"lease", "dedup", "--space", "s", "--sha", sha}), 2) << sha;
        EXPECT_THAT(err_, HasSubstr("64 hexadecimal digits"));
    }
}

TEST_F(CommandTest, OutputThatCannotBeWrittenIsAFailure) {
    EXPECT_EQ(run({"migrate"}), 0);
    struct Full final : std::streambuf {};  // takes nothing
    Full full;
    std::istringstream in;
    std::ostream out(&full);
    std::ostringstream err;
    const Context context{in, out, err, [this](const std::string& name) -> std::optional<std::string> {
                              const auto found = variables_.find(name);
                              return found == variables_.end() ? std::nullopt : std::optional(found->second);
                          }};
    EXPECT_EQ(cli::run(std::vector<std::string>{"config", "show"}, context), 1);
    EXPECT_EQ(err.str(), "deliverd: cannot write the answer to standard output\n");
}

TEST_F(CommandTest, ConfigCheckAsJson) {
    EXPECT_EQ(run({"config", "check", "--json"}), 0);
    EXPECT_EQ(boost::json::parse(out_).at("ok"), true);
    EXPECT_EQ(boost::json::parse(out_).at("lanes"), boost::json::parse(R"(["memories"])"));
    const std::string path = write("bad.yaml", "server:\n  prt: 1\n");
    EXPECT_EQ(run({"config", "check", "--json", "--config", path}), 2);
    const auto answer = boost::json::parse(out_);
    EXPECT_EQ(answer.at("ok"), false);
    ASSERT_EQ(answer.at("problems").as_array().size(), 1U);
    EXPECT_EQ("deliverd: " + std::string(answer.at("problems").as_array()[0].as_string()) + "\n", err_);
}

TEST_F(CommandTest, MigrateSaysWhatItDid) {
    EXPECT_EQ(run({"migrate", "--dry-run"}), 0);
    EXPECT_THAT(out_, HasSubstr("-- 0001 "));
    EXPECT_THAT(out_, HasSubstr("outbox_memory"));
    EXPECT_EQ(run({"migrate"}), 0);
    EXPECT_THAT(out_, StartsWith("applied 0001 "));
    EXPECT_THAT(out_, HasSubstr(": schema upgraded to version "));
    EXPECT_EQ(run({"migrate"}), 0);
    EXPECT_THAT(out_, HasSubstr(": schema is up to date at version "));
}

TEST_F(CommandTest, WorkerOnceDeliversABatch) {
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "one"}), 0);
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "two"}), 0);
    EXPECT_EQ(run({"worker", "--lane", "memories", "--once", "--json", "--batch-size", "1"}), 0) << err_;
    EXPECT_EQ(boost::json::parse(out_).at("sent"), 1);
    EXPECT_EQ(run({"worker", "--lane", "memories", "--once", "--worker-id", "w"}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("lane memories: claimed 1, sent 1,"));
    EXPECT_EQ(shown("2", "status"), "\"sent\"");
}

TEST_F(CommandTest, WorkerOnceExitsOneWhenASendFailed) {
    variables_["CONFIG_PATH"] = write("away.yaml",
                                      "log: { level: error }\nlanes:\n  memories:\n    outbox: memory\n"
                                      "    sink: { type: http, url: \"http://127.0.0.1:1/\" }\n");
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "one"}), 0);
    EXPECT_EQ(run({"worker", "--lane", "memories", "--once", "--json"}), 1);
    EXPECT_EQ(boost::json::parse(out_).at("retried"), 1);
    EXPECT_EQ(shown("1", "retry_count"), "1");
}

TEST_F(CommandTest, DoctorFindsWhatIsBad) {
    EXPECT_EQ(run({"doctor"}), 0) << out_;
    EXPECT_THAT(out_, HasSubstr("does not exist yet"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "test.db"));
    EXPECT_EQ(run({"migrate"}), 0);
    EXPECT_EQ(run({"doctor", "--json"}), 0) << out_;
    const auto findings = boost::json::parse(out_).as_array();
    EXPECT_EQ(std::ranges::count_if(findings, [](const auto& found) { return found.at("check") == "schema"; }), 1);
    variables_["DATABASE_URL"] = "sqlite:/no/such/folder/x.db";
    EXPECT_EQ(run({"doctor"}), 1);
    EXPECT_THAT(out_, HasSubstr("BAD  database"));
    variables_["CONFIG_PATH"] = write("bad.yaml", "prot: 1\n");
    EXPECT_EQ(run({"doctor"}), 2);
    EXPECT_THAT(out_, HasSubstr("BAD  config"));
}

/// What a finding quotes may be anybody's words.
TEST_F(CommandTest, DoctorSteersNoTerminal) {
    variables_["DATABASE_URL"] = "sqlite:/no/such/\u009b31m\x1b[31m/x.db";
    for (const std::vector<std::string>& command : {std::vector<std::string>{"doctor"}, {"doctor", "--json"}}) {
        EXPECT_EQ(run(command), 1);
        EXPECT_THAT(out_, HasSubstr("/no/such/"));
        EXPECT_THAT(out_, Not(AnyOf(HasSubstr("\u009b"), HasSubstr("\x1b"))));
    }
}

TEST_F(CommandTest, DoctorSaysWhatBecomesOfMessages) {
    EXPECT_EQ(run({"doctor"}), 0) << out_;
    EXPECT_THAT(out_, HasSubstr("warning: a sink of type none discards every message"));
    variables_["CONFIG_PATH"] =
        write("console.yaml", "lanes:\n  memories: { outbox: memory, sink: { type: console } }\n");
    EXPECT_EQ(run({"doctor"}), 0) << out_;
    EXPECT_THAT(out_, HasSubstr("printed on standard output"));
    variables_["CONFIG_PATH"] = write("token.yaml",
                                      "lanes:\n  memories:\n    outbox: memory\n    sink: { type: http, url: "
                                      "\"http://127.0.0.1:1/\", token_file: /no/such/token }\n");
    EXPECT_EQ(run({"doctor"}), 1);
    EXPECT_THAT(out_, testing::ContainsRegex("BAD  sink of memories +token file /no/such/token: No such file"));
}

TEST_F(CommandTest, BenchRefusesATableInUse) {
    const std::string json = (folder_ / "bench.json").string();
    EXPECT_EQ(run({"bench", "--rows", "50", "--batch-size", "20", "--json", json}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("rows/s"));
    std::ifstream file(json);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(boost::json::parse(text).at("rows"), 50);
    EXPECT_EQ(run({"lease", "enqueue", "--space", "s", "--payload", "one more"}), 0);
    const std::string id = out_.substr(0, out_.size() - 1);
    EXPECT_EQ(run({"bench", "--rows", "50"}), 2);
    EXPECT_THAT(err_, HasSubstr("not empty"));
    EXPECT_EQ(run({"bench", "--existing"}), 0) << err_;
    EXPECT_EQ(run({"bench", "--existing"}), 2);
    EXPECT_EQ(shown(id, "status"), "\"sent\"");
}

TEST_F(CommandTest, BenchRemovesItsOwnRows) {
    EXPECT_EQ(run({"bench", "--rows", "50", "--batch-size", "20"}), 0) << err_;
    EXPECT_EQ(err_, "");
    EXPECT_EQ(run({"lease", "show", "--id", "1"}), 1);
    EXPECT_EQ(run({"bench", "--rows", "50", "--batch-size", "20"}), 0) << err_;
}

TEST_F(CommandTest, TokenNewPrintsATokenOnceAndItsLine) {
    ASSERT_EQ(run({"token", "new", "--name", "ops", "--role", "operator"}), 0) << err_;
    const std::string first = out_;
    const std::string token = first.substr(first.find("dlv_"), 68);
    const std::string line = first.substr(first.find("- {"));
    EXPECT_THAT(line, HasSubstr("sha256: \"" + sha256_hex(token) + "\""));
    variables_["CONFIG_PATH"] = write("with.yaml", "auth:\n  tokens:\n    " + line);
    EXPECT_EQ(run({"config", "check"}), 0) << err_;
    ASSERT_EQ(run({"token", "new", "--name", "ops", "--role", "operator", "--json"}), 0);
    EXPECT_THAT(out_, HasSubstr("\"sha256\":"));
    EXPECT_EQ(out_.find(token), std::string::npos) << "another one";
    EXPECT_EQ(run({"token", "new", "--name", "a b", "--role", "operator"}), 2);
    EXPECT_EQ(run({"token", "new", "--name", "ops", "--role", "king"}), 2);
}

TEST_F(CommandTest, TheHashOfAWellKnownWordIsRefused) {
    for (const std::string word : {"test", "test\n", "changeme", ""}) {
        variables_["CONFIG_PATH"] =
            write("known.yaml", "auth: { tokens: [ { name: a, sha256: " + sha256_hex(word) + " } ] }\n");
        EXPECT_EQ(run({"config", "check"}), 2) << word;
        EXPECT_THAT(err_, HasSubstr("a word that is easy to guess"));
    }
}

TEST_F(CommandTest, ConfigShowMasksHashesAndShowsSpools) {
    const std::string hash = sha256_hex("a long and secret token");
    variables_["CONFIG_PATH"] = write("shown.yaml", "auth: { tokens: [ { name: a, sha256: " + hash +
                                                        " } ] }\nspools:\n  hooks: { path: /tmp/hooks.jsonl }\n");
    for (const bool json : {false, true}) {
        std::vector<std::string> words{"config", "show"};
        if (json) words.emplace_back("--json");
        ASSERT_EQ(run(words), 0) << err_;
        EXPECT_EQ(out_.find(hash), std::string::npos);
        EXPECT_THAT(out_, HasSubstr("auth.tokens[0].sha256"));
        EXPECT_THAT(out_, HasSubstr("spools.hooks.path"));
        EXPECT_THAT(out_, HasSubstr("spools.hooks.retry_seconds"));
    }
}

}  // namespace
}  // namespace deliverd::cli
