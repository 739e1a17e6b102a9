// `deliverd outbox …`, in-process on a SQLite file of the test's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command.h"

namespace deliverd::cli {
namespace {

using testing::HasSubstr;

class OutboxCommandTest : public testing::Test {
protected:
    OutboxCommandTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-outbox-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        url_ = "sqlite:" + (folder_ / "test.db").string();
    }
    ~OutboxCommandTest() override { std::filesystem::remove_all(folder_); }

    int run(std::vector<std::string> words, const std::string& input = "") {
        words.insert(words.begin(), "outbox");
        std::istringstream in(input);
        std::ostringstream out;
        std::ostringstream err;
        const Context context{in, out, err, [this](const std::string& name) -> std::optional<std::string> {
                                  return name == "DATABASE_URL" ? std::optional(url_) : std::nullopt;
                              }};
        const int status = cli::run(words, context);
        out_ = out.str();
        err_ = err.str();
        return status;
    }
    std::string add(const std::string& aggregate = "order-1", const std::string& payload = "{}") {
        EXPECT_EQ(run({"add", "--aggregate", aggregate, "--type", "OrderCreated", "--payload", payload}), 0) << err_;
        return out_.substr(0, out_.size() - 1);
    }
    boost::json::value json() { return boost::json::parse(out_); }

    std::filesystem::path folder_;
    std::string url_;
    std::string out_;
    std::string err_;
};

TEST_F(OutboxCommandTest, AddPrintsTheIdAndShowTheRow) {
    EXPECT_EQ(run({"add", "--aggregate", "order-1", "--type", "OrderCreated", "--payload", R"({"n": 1.50})",
                   "--metadata", R"({"by": "me"})"}),
              0)
        << err_;
    EXPECT_EQ(out_, "1\n");
    EXPECT_EQ(run({"show", "1"}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr(R"("payload":{"n": 1.50},)")) << "the digits stay";
    const auto row = json().as_object();
    std::vector<std::string> names;
    for (const auto& member : row) names.emplace_back(member.key());
    EXPECT_THAT(names, testing::ElementsAre("id", "aggregate_id", "event_type", "payload", "created_at", "published_at",
                                            "published", "event_id", "metadata", "retry_count", "next_attempt_at",
                                            "last_error", "dead_at"));
    EXPECT_EQ(row.at("metadata").at("by"), "me");
    EXPECT_EQ(row.at("published"), false);
    EXPECT_TRUE(row.at("dead_at").is_null());
    EXPECT_EQ(run({"show", "2"}), 1);
    EXPECT_THAT(err_, HasSubstr("no event 2"));
}

TEST_F(OutboxCommandTest, ThePayloadMayBeInAFileOrAPipe) {
    std::ofstream(folder_ / "event.json") << R"({"from": "a file"})";
    add("a", "@" + (folder_ / "event.json").string());
    EXPECT_EQ(run({"add", "--aggregate", "a", "--type", "T", "--payload", "-"}, R"({"from": "a pipe"})"), 0) << err_;
    EXPECT_EQ(run({"add", "--aggregate", "a", "--type", "T", "--payload", "@-"}, "[1]\n"), 0) << err_;
    EXPECT_EQ(run({"list", "--json"}), 0);
    EXPECT_EQ(json().at(0).at("payload").at("from"), "a file");
    EXPECT_EQ(json().at(1).at("payload").at("from"), "a pipe");
    EXPECT_EQ(json().at(2).at("payload").at(0), 1);
    EXPECT_EQ(run({"add", "--aggregate", "a", "--type", "T", "--payload", "@/nowhere.json"}), 2);
    EXPECT_THAT(err_, HasSubstr("--payload @/nowhere.json: No such file"));
    EXPECT_EQ(run({"add", "--aggregate", "a", "--type", "T", "--payload", "-"}, std::string((16U << 20U) + 1, '1')), 2);
    EXPECT_THAT(err_, HasSubstr("longer than"));
}

TEST_F(OutboxCommandTest, WhatIsWrongIsToldInOneLine) {
    EXPECT_EQ(run({"add", "--aggregate", "a", "--type", "T", "--payload", "{nonsense"}), 2);
    EXPECT_THAT(err_, HasSubstr("deliverd: payload is not JSON: unexpected 'n' at byte 1"));
    EXPECT_EQ(run({"add", "--aggregate", "a", "--type", "T", "--payload", "{}", "--metadata", "[]"}), 2);
    EXPECT_THAT(err_, HasSubstr("metadata is not a JSON object"));
    EXPECT_EQ(run({"add", "--aggregate", "", "--type", "T", "--payload", "{}"}), 2);
    EXPECT_THAT(err_, HasSubstr("aggregate_id is empty"));
    EXPECT_EQ(run({"list", "--limit", "0"}), 2);
    EXPECT_THAT(err_, HasSubstr("--limit must be a whole number from 1"));
    EXPECT_EQ(run({"cleanup", "--older-than", "-1s"}), 2);
    EXPECT_THAT(err_, HasSubstr("--older-than must be seconds"));
    EXPECT_EQ(run({"show", "x"}), 2);
    EXPECT_THAT(err_, HasSubstr("id must be a whole number"));
    EXPECT_EQ(run({"stat"}), 2);
    EXPECT_THAT(err_, HasSubstr("did you mean \"stats\""));
}

TEST_F(OutboxCommandTest, ListShowsWhatIsOpenOrAllOfAnAggregate) {
    const std::string first = add("order-1");
    add("order-2");
    add("order-1");
    EXPECT_EQ(run({"mark", "--id", first}), 0);
    EXPECT_EQ(run({"list"}), 0);
    EXPECT_THAT(out_, HasSubstr("order-2"));
    EXPECT_THAT(out_, testing::Not(HasSubstr(" published ")));
    EXPECT_EQ(run({"list", "--json", "--limit", "1"}), 0);
    EXPECT_EQ(json().as_array().size(), 1U);
    EXPECT_EQ(run({"list", "--aggregate", "order-1"}), 0);
    EXPECT_THAT(out_, HasSubstr(" published "));
    EXPECT_EQ(run({"list", "--aggregate", "order-1", "--json"}), 0);
    ASSERT_EQ(json().as_array().size(), 2U);
    EXPECT_EQ(json().at(0).at("published"), true);
    EXPECT_EQ(run({"list", "--aggregate", "order-9"}), 0);
    EXPECT_EQ(out_, "no events\n");
    EXPECT_EQ(run({"list", "--aggregate", "order-9", "--json"}), 0);
    EXPECT_EQ(out_, "[]\n");
}

TEST_F(OutboxCommandTest, MarkAndCount) {
    const std::string id = add();
    EXPECT_EQ(run({"retry-count", "--id", id, "--error", "503"}), 0);
    EXPECT_EQ(out_, "1\n");
    EXPECT_EQ(run({"retry-count", "--id", id}), 0);
    EXPECT_EQ(out_, "2\n");
    EXPECT_EQ(run({"list"}), 0);
    EXPECT_THAT(out_, HasSubstr("waiting"));
    EXPECT_THAT(out_, HasSubstr("503"));
    EXPECT_EQ(run({"mark", "--id", id}), 0);
    EXPECT_EQ(out_, "true\n");
    EXPECT_EQ(run({"mark", "--id", id}), 1);
    EXPECT_EQ(out_, "false\n");
    EXPECT_EQ(run({"retry-count", "--id", id}), 1);
    EXPECT_THAT(err_, HasSubstr("is not open"));
}

TEST_F(OutboxCommandTest, StatsHasExactlyTheseFigures) {
    const std::string published = add();
    add();
    EXPECT_EQ(run({"mark", "--id", published}), 0);
    EXPECT_EQ(run({"stats", "--json"}), 0);
    const auto stats = json().as_object();
    EXPECT_EQ(stats.size(), 6U);
    EXPECT_EQ(stats.at("total"), 2);
    EXPECT_EQ(stats.at("unpublished"), 1);
    EXPECT_EQ(stats.at("published"), 1);
    EXPECT_EQ(stats.at("dead"), 0);
    EXPECT_EQ(stats.at("max_retries"), 0);
    EXPECT_GE(stats.at("oldest_unpublished_age_seconds").to_number<double>(), 0);
    EXPECT_EQ(run({"mark", "--id", "2"}), 0);
    EXPECT_EQ(run({"stats", "--json"}), 0);
    EXPECT_TRUE(json().at("oldest_unpublished_age_seconds").is_null());
    EXPECT_EQ(run({"stats"}), 0);
    EXPECT_THAT(out_, HasSubstr("oldest_unpublished_age_seconds             -\n"));
}

TEST_F(OutboxCommandTest, CleanupDeletesWhatIsOldEnough) {
    EXPECT_EQ(run({"mark", "--id", add()}), 0);
    add();
    EXPECT_EQ(run({"cleanup"}), 0);
    EXPECT_EQ(out_, "0\n") << "seven days by default";
    // Published a moment ago, by a clock that counts milliseconds: wait until it has moved on.
    int status = 0;
    for (int tries = 0; tries < 100'000 && out_ == "0\n" && status == 0; ++tries) {
        status = run({"cleanup", "--older-than", "0s"});
    }
    EXPECT_EQ(out_, "1\n");
    EXPECT_EQ(err_, "") << "progress is for terminals";
    EXPECT_EQ(run({"cleanup", "--older-than", "0s", "--json"}), 0);
    EXPECT_EQ(out_, "{\"deleted\":0}\n");
    EXPECT_EQ(run({"stats", "--json"}), 0);
    EXPECT_EQ(json().at("total"), 1);
}

TEST_F(OutboxCommandTest, ADatabaseThatIsNotThereIsNotMadeByLooking) {
    EXPECT_EQ(run({"stats"}), 1);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "test.db"));
}

TEST_F(OutboxCommandTest, HelpTeaches) {
    for (const char* command : {"add", "list", "show", "stats", "cleanup", "mark", "retry-count"}) {
        EXPECT_EQ(run({command, "--help"}), 0);
        EXPECT_THAT(out_, HasSubstr("Examples:\n  deliverd outbox " + std::string(command)));
    }
}

}  // namespace
}  // namespace deliverd::cli
