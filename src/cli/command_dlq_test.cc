// `deliverd dlq …`, in-process on a SQLite file of the test's own, without Kafka.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command.h"
#include "daemon/parts.h"
#include "store/sqlite/testing/test_sql.h"

namespace deliverd::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kUnknown = "00000000-0000-4000-8000-000000000000";

class DlqCommandTest : public testing::Test {
protected:
    DlqCommandTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-dlq-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        url_ = "sqlite:" + (folder_ / "test.db").string();
    }
    ~DlqCommandTest() override { std::filesystem::remove_all(folder_); }

    int run(std::vector<std::string> words) {
        words.insert(words.begin(), "dlq");
        std::istringstream in(answer_.value_or(""));
        std::ostringstream out;
        std::ostringstream err;
        const Context context{in, out, err,
                              [this](const std::string& name) -> std::optional<std::string> {
                                  if (name == "CONFIG_PATH" && !config_.empty()) return config_;
                                  return name == "DATABASE_URL" ? std::optional(url_) : std::nullopt;
                              },
                              answer_.has_value()};
        const int status = cli::run(words, context);
        out_ = out.str();
        err_ = err.str();
        return status;
    }

    /// Stores `count` letters of the topic, and answers the ids of all letters, newest first.
    std::vector<std::string> store(int count, const std::string& topic = "orders.dlq.v1") {
        const config::LoadedConfig loaded = config::load_config_text(
            "database: { url: \"" + url_ + "\" }", "c.yaml", {}, [](const std::string&) { return std::nullopt; });
        NullLog log;
        auto database = daemon::open_ready_database(loaded.config.database, log);
        EXPECT_TRUE(database);
        const auto letters = (*database)->dead_letters();
        std::vector<store::NewLetter> fresh;
        for (int i = 0; i < count; ++i) {
            store::NewLetter letter;
            letter.record.topic = topic;
            letter.record.offset = next_offset_++;
            letter.record.key = "key-" + std::to_string(letter.record.offset);
            letter.record.value = R"({"n": 1.50})";
            letter.payload = letter.record.value;
            letter.provenance.original_topic = "orders";
            letter.provenance.error_message = "timeout\nof the database";
            fresh.push_back(std::move(letter));
        }
        EXPECT_EQ(letters->store(fresh), count);
        store::LetterQuery query;
        query.limit = 1000;
        const auto page = letters->list(query);
        std::vector<std::string> ids;
        for (const auto& letter : page->letters) ids.push_back(letter.id);
        return ids;
    }
    /// Inserts `count` rows with the required columns only, as people without Kafka do; answers the ids of all.
    std::vector<std::string> insert(int count, const std::string& topic = "orders") {
        store(0);
        for (int i = 0; i < count; ++i) {
            store::sqlite::run_sql(folder_ / "test.db",
                                   "insert into dlq_messages (original_topic, payload) values ('" + topic + "', '{}')");
        }
        return store(0);
    }
    boost::json::value json() { return boost::json::parse(out_); }

    std::filesystem::path folder_;
    std::string config_;  // its path; empty: none
    std::string url_;
    std::string out_;
    std::string err_;
    std::optional<std::string> answer_;  // of the person at the terminal; none: there is no terminal
    std::int64_t next_offset_ = 0;
};

TEST_F(DlqCommandTest, PurgesWhatIsOldOfAState) {
    const auto ids = store(3);
    EXPECT_EQ(run({"dead", ids[0]}), 0) << err_;
    EXPECT_EQ(run({"purge", "--status", "DEAD", "--older-than", "1h"}), 0) << err_;
    EXPECT_EQ(out_, "0\n");
    store::sqlite::run_sql(folder_ / "test.db", "update dlq_messages set updated_at = '2026-01-01T00:00:00.000Z'");
    EXPECT_EQ(run({"purge", "--status", "DEAD", "--older-than", "1h"}), 0) << err_;
    EXPECT_EQ(out_, "1\n");
    EXPECT_EQ(run({"purge", "--status", "PENDING", "--older-than", "1h", "--json"}), 0) << err_;
    EXPECT_EQ(json().at("purged").as_int64(), 2);
    EXPECT_EQ(run({"show", "--audit", ids[0]}), 0) << err_;
    EXPECT_EQ(json().at("audit").at(1).at("action").as_string(), "purged");
    EXPECT_NE(run({"purge", "--status", "GONE", "--older-than", "1h"}), 0);
    EXPECT_THAT(err_, HasSubstr("one of PENDING, RETRYING, RESOLVED, DEAD"));
    EXPECT_NE(run({"purge", "--older-than", "1h"}), 0);
    EXPECT_NE(run({"purge", "--status", "DEAD"}), 0);
}

TEST_F(DlqCommandTest, AnEmptyTableIsNoError) {
    EXPECT_EQ(run({"list"}), 1) << "no database is an error: the path may be mistyped";
    EXPECT_THAT(err_, HasSubstr("does not exist; correct the path"));
    store(0);
    EXPECT_EQ(run({"list"}), 0) << err_;
    EXPECT_EQ(out_, "no dead letters\n");
    EXPECT_EQ(run({"list", "--json"}), 0);
    EXPECT_EQ(out_, "[]\n");
    EXPECT_EQ(run({"stats"}), 0);
    EXPECT_EQ(out_, "no dead letters\n");
    EXPECT_EQ(run({"stats", "--json"}), 0);
    EXPECT_EQ(out_, "[]\n");
}

TEST_F(DlqCommandTest, ListsNewestFirstInPagesThatNobodySees) {
    const auto ids = store(230);
    EXPECT_EQ(run({"list", "--limit", "1000", "--json"}), 0) << err_;
    const auto all = json().as_array();
    ASSERT_EQ(all.size(), 230U);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].at("id").as_string(), ids[i]);
    std::vector<std::string> names;
    for (const auto& member : all[0].as_object()) names.emplace_back(member.key());
    EXPECT_THAT(names,
                ElementsAre("id", "original_topic", "error_message", "retry_count", "max_retries", "payload", "status",
                            "created_at", "updated_at", "last_retry_at", "source", "source_topic", "source_partition",
                            "source_offset", "truncated", "error_class", "original_partition", "original_offset",
                            "producer", "lane", "outbox", "outbox_row_id", "last_retry_error", "in_doubt"));
    EXPECT_EQ(run({"list", "--limit", "150", "--json"}), 0);
    EXPECT_EQ(json().as_array().size(), 150U);
    EXPECT_EQ(run({"list"}), 0);
    EXPECT_EQ(std::ranges::count(out_, '\n'), 22)
        << "a head, 20 lines, also where an error has a line break, and that there are more";
    EXPECT_THAT(out_, HasSubstr("timeout of the database"));
}

TEST_F(DlqCommandTest, Filters) {
    store(2);
    store(3, "mail.dlq.v1");
    const auto count = [this](std::vector<std::string> words) {
        words.insert(words.begin(), {"list", "--json"});
        EXPECT_EQ(run(words), 0) << err_;
        return json().as_array().size();
    };
    EXPECT_EQ(count({"--topic", "mail.dlq.v1"}), 3U);
    EXPECT_EQ(count({"--topic", "orders"}), 5U) << "the original topic";
    EXPECT_EQ(count({"--status", "PENDING", "--source", "kafka"}), 5U);
    EXPECT_EQ(count({"--status", "DEAD"}), 0U);
    EXPECT_EQ(count({"--text", "TIMEOUT"}), 5U);
    EXPECT_EQ(count({"--key", "key-1"}), 1U);
    EXPECT_EQ(count({"--from", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z"}), 0U);
    EXPECT_EQ(run({"list", "--status", "dead"}), 2);
    EXPECT_THAT(err_, HasSubstr("--status must be one of PENDING"));
    EXPECT_EQ(run({"list", "--from", "yesterday"}), 2);
    EXPECT_THAT(err_, HasSubstr("--from must be a time"));
    EXPECT_EQ(run({"list", "--source", "lane:"}), 2) << "of which lane?";
    EXPECT_EQ(run({"list", "--source", "kafak"}), 2);
    EXPECT_THAT(err_, HasSubstr("--source must be kafka, lane:NAME or spool:NAME"));
    EXPECT_EQ(run({"list", "--topic", "mial.dlq.v1"}), 0);
    EXPECT_EQ(out_, "no dead letters match the filters\n");
}

TEST_F(DlqCommandTest, AListThatIsCutSaysSo) {
    store(3);
    EXPECT_EQ(run({"list", "--limit", "2"}), 0) << err_;
    EXPECT_THAT(out_, testing::EndsWith("\nmore dead letters exist; --limit N shows them\n"));
    EXPECT_EQ(run({"list", "--limit", "3"}), 0) << err_;
    EXPECT_THAT(out_, testing::Not(HasSubstr("--limit")));
    EXPECT_EQ(run({"list", "--limit", "2", "--json"}), 0) << err_;
    EXPECT_EQ(json().as_array().size(), 2U);
}

TEST_F(DlqCommandTest, ShowsALetterItsBytesAndItsAudit) {
    const auto ids = store(1);
    EXPECT_EQ(run({"show", ids[0]}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr(R"("payload":{"n": 1.50})")) << "the digits stay";
    EXPECT_EQ(json().at("retryable"), false);
    EXPECT_THAT(out_, HasSubstr("it was read from Kafka, and without `kafka` in the configuration"));
    EXPECT_EQ(run({"show", "--raw", ids[0]}), 0);
    EXPECT_EQ(json().at("value_text").as_string(), R"({"n": 1.50})");
    EXPECT_EQ(run({"show", "--audit", ids[0]}), 0) << err_;
    EXPECT_TRUE(json().at("audit").is_array());
    EXPECT_EQ(run({"show", kUnknown}), 1);
    EXPECT_THAT(err_, HasSubstr(std::string("no dead letter ") + kUnknown));
    EXPECT_EQ(run({"show", "nonsense"}), 2);
    EXPECT_THAT(err_, HasSubstr("invalid message id: nonsense"));
    EXPECT_EQ(run({"show", "--raw", "--audit", ids[0]}), 2);
}

TEST_F(DlqCommandTest, WithoutKafkaWhatWasReadFromItIsNotRetried) {
    const auto ids = store(1);
    EXPECT_EQ(run({"retry", ids[0]}), 1);
    EXPECT_THAT(err_, HasSubstr("it was read from Kafka"));
    EXPECT_EQ(run({"show", ids[0]}), 0);
    EXPECT_EQ(json().at("status").as_string(), "PENDING");
}

TEST_F(DlqCommandTest, ARetryResolvesOnceAndIsInTheAudit) {
    const auto ids = insert(1);
    EXPECT_EQ(run({"retry", ids[0], "--json"}), 0) << err_;
    EXPECT_EQ(json().at("status").as_string(), "RESOLVED");
    EXPECT_EQ(run({"retry", ids[0]}), 1);
    EXPECT_EQ(err_, "deliverd: message is not retryable: status=RESOLVED, retry_count=1/3\n");
    EXPECT_EQ(run({"retry", kUnknown}), 1);
    EXPECT_EQ(run({"show", "--audit", ids[0]}), 0);
    EXPECT_THAT(out_, HasSubstr("\"actor\":\"cli:"));
}

TEST_F(DlqCommandTest, RetryAllPrintsHowMany) {
    insert(3);
    insert(2, "mail");
    EXPECT_EQ(run({"retry-all", "mail"}), 0) << err_;
    EXPECT_EQ(out_, "2\n");
    EXPECT_EQ(run({"retry-all", "orders", "--json"}), 0);
    EXPECT_EQ(out_,
              "{\"topic\":\"orders\",\"retried\":3,\"failed\":0,\"in_doubt\":0,\"taken_over\":0,\"not_tried\":0}\n");
    EXPECT_EQ(run({"stats", "--json"}), 0);
    EXPECT_EQ(json().at(0).at("topic").as_string(), "mail");
    EXPECT_EQ(json().at(1).at("resolved"), 3);
    EXPECT_EQ(run({"stats"}), 0);
    EXPECT_THAT(out_, HasSubstr("orders"));
}

TEST_F(DlqCommandTest, GivesUpAndDeletes) {
    const auto ids = store(1);
    EXPECT_EQ(run({"dead", ids[0]}), 0) << err_;
    EXPECT_EQ(out_, ids[0] + " DEAD: message marked as dead\n");
    EXPECT_EQ(run({"dead", ids[0]}), 1);
    EXPECT_THAT(err_, HasSubstr("cannot be marked as dead: status=DEAD"));
    EXPECT_EQ(run({"delete", ids[0]}), 0) << err_;
    EXPECT_EQ(out_, "message " + ids[0] + " deleted\n");
    EXPECT_EQ(run({"delete", ids[0]}), 1);
    EXPECT_EQ(run({"show", "--audit", ids[0]}), 0) << "the audit stays";
    EXPECT_THAT(out_, HasSubstr("\"action\":\"deleted\""));
}

TEST_F(DlqCommandTest, AsksOnATerminalBeforeItDeletes) {
    const auto ids = store(3);
    const std::vector<std::string> purge{"purge", "--status", "PENDING", "--older-than", "0"};
    for (const char* no : {"", "n\n", "yes please\n"}) {
        answer_ = no;
        EXPECT_EQ(run({"delete", ids[0]}), 1);
        EXPECT_EQ(err_, "Delete dead letter " + ids[0] + "? [y/N] deliverd: nothing was changed\n");
        EXPECT_EQ(run(purge), 1);
        EXPECT_THAT(err_, HasSubstr("Delete all PENDING dead letters that have not changed for 0 seconds? [y/N] "));
    }
    EXPECT_EQ(run({"show", ids[0]}), 0) << err_;
    answer_ = "y\n";
    EXPECT_EQ(run({"delete", ids[0]}), 0) << err_;
    answer_ = "";
    EXPECT_EQ(run({"delete", "--yes", ids[1]}), 0) << err_;
    EXPECT_EQ(err_, "");
    EXPECT_EQ(run({"show", ids[2]}), 0) << err_;
}

TEST_F(DlqCommandTest, ShowsWhereARetryOfAllGoesBeforeItBegins) {
    store(3);
    config_ = (folder_ / "deliverd.yaml").string();
    std::ofstream(config_) << "kafka: { replay_topics: [pay, \"ship.*\"] }\n";
    EXPECT_EQ(run({"retry-all", "orders.dlq.v1"}), 0) << err_;
    EXPECT_THAT(err_, testing::StartsWith("3 to topic orders, refused: topic orders is not in kafka.replay_topics"));
    EXPECT_THAT(err_, HasSubstr("3 were not tried"));
    EXPECT_EQ(out_, "0\n");
    std::ofstream(config_) << "kafka: { replay_topics: [\"ord*\"] }\n";
    EXPECT_EQ(run({"retry-all", "orders.dlq.v1"}), 1);
    EXPECT_THAT(err_, testing::StartsWith("3 to topic orders\n"));
    std::ofstream(config_) << "kafka: { replay_topics: [\"a b\"] }\n";
    EXPECT_EQ(run({"retry-all", "orders.dlq.v1"}), 2);
    EXPECT_THAT(err_, HasSubstr("kafka.replay_topics"));
}

TEST_F(DlqCommandTest, RevivesWhatIsDead) {
    const auto ids = store(1);
    EXPECT_EQ(run({"revive", ids[0]}), 1);
    EXPECT_THAT(err_, HasSubstr("cannot be revived: status=PENDING, retry_count=0/3"));
    EXPECT_EQ(run({"dead", ids[0]}), 0) << err_;
    EXPECT_EQ(run({"revive", ids[0]}), 0) << err_;
    EXPECT_EQ(out_, ids[0] + " PENDING: message can be retried again\n");
    EXPECT_EQ(run({"show", "--audit", ids[0]}), 0);
    EXPECT_THAT(out_, HasSubstr("\"action\":\"revived\""));
    EXPECT_EQ(run({"revive", "00000000-0000-4000-8000-000000000009"}), 1);
}

TEST_F(DlqCommandTest, TheHelpTeaches) {
    EXPECT_EQ(run({"--help"}), 0);
    EXPECT_THAT(out_, HasSubstr("A dead letter is a message that a consumer, a lane or a spool gave up on"));
    for (const char* name : {"list", "show", "retry", "retry-all", "dead", "revive", "delete", "stats"}) {
        EXPECT_EQ(run({name, "--help"}), 0);
        EXPECT_THAT(out_, HasSubstr(std::string("deliverd dlq ") + name));
    }
    EXPECT_EQ(run({"retryall"}), 2);
    EXPECT_THAT(err_, HasSubstr("did you mean \"retry-all\"?"));
}

}  // namespace
}  // namespace deliverd::cli
