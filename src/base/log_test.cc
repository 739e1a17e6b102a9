#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "base/stderr_log.h"
#include "base/text.h"

namespace deliverd {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using namespace std::string_literals;

const WallTime kTime = WallTime(std::chrono::milliseconds(1'645'557'742'123));  // 2022-02-22T19:22:22.123Z

boost::json::object parsed(std::string_view line) {
    EXPECT_THAT(std::string(line), EndsWith("\n"));
    EXPECT_EQ(line.find('\n'), line.size() - 1) << "a record is one line";
    return boost::json::parse(boost::json::string_view(line.data(), line.size())).as_object();
}

TEST(LogLine, JsonCarriesEveryFieldWithItsType) {
    const std::vector<LogField> fields = {
        {"lane", "orders"}, {"batch_size", 500}, {"ratio", 0.25}, {"loop", true}, {"id", std::int64_t{1} << 62}};
    const auto object = parsed(json_log_line(kTime, LogLevel::warn, "lane started", fields));
    EXPECT_EQ(object.at("ts").as_string(), "2022-02-22T19:22:22.123Z");
    EXPECT_EQ(object.at("level").as_string(), "warn");
    EXPECT_EQ(object.at("event").as_string(), "lane started");
    EXPECT_EQ(object.at("lane").as_string(), "orders");
    EXPECT_EQ(object.at("batch_size").to_number<int>(), 500);
    EXPECT_EQ(object.at("ratio").as_double(), 0.25);
    EXPECT_TRUE(object.at("loop").as_bool());
    EXPECT_EQ(object.at("id").as_int64(), std::int64_t{1} << 62);
}

TEST(LogLine, JsonEscapesWhatWouldBreakTheLine) {
    const std::string nasty = "quote\" back\\slash\nnew\r\tline \x01 nul\0 bell\x07 csi\u009b"s;
    const std::string line = json_log_line(kTime, LogLevel::info, nasty, std::vector<LogField>{{"x", nasty}});
    EXPECT_THAT(line, Not(HasSubstr("\u009b")));
    const auto object = parsed(line);
    EXPECT_EQ(std::string_view(object.at("event").as_string()), nasty);
    EXPECT_EQ(std::string_view(object.at("x").as_string()), nasty);
}

TEST(LogLine, JsonReplacesBrokenUtf8AndNumbersThatAreNone) {
    const std::vector<LogField> fields = {{"text", "a\xff"},
                                          {"nan", std::numeric_limits<double>::quiet_NaN()},
                                          {"inf", std::numeric_limits<double>::infinity()}};
    const auto object = parsed(json_log_line(kTime, LogLevel::info, "x", fields));
    EXPECT_EQ(object.at("text").as_string(), "a\ufffd");
    EXPECT_TRUE(object.at("nan").is_null());
    EXPECT_TRUE(object.at("inf").is_null());
}

RC_GTEST_PROP(LogLineProperty, AnyTextIsOneValidJsonLine, (const std::string& event, const std::string& value)) {
    const std::string line = json_log_line(kTime, LogLevel::error, event, std::vector<LogField>{{"v", value}});
    RC_ASSERT(line.find('\n') == line.size() - 1);
    boost::system::error_code error;
    const auto object = boost::json::parse(line, error);
    RC_ASSERT(!error);
    RC_ASSERT(std::string_view(object.at("v").as_string()) == valid_utf8(value));
    const std::string human = human_log_line(kTime, LogLevel::error, event, std::vector<LogField>{{"v", value}}, false);
    RC_ASSERT(human.find('\n') == human.size() - 1);
    RC_ASSERT(human.find('\x1b') == std::string::npos);
}

TEST(LogLine, HumanIsReadable) {
    const std::vector<LogField> fields = {{"lane", "orders"}, {"n", 3}, {"why", "no route\nto host"}, {"empty", ""}};
    EXPECT_EQ(human_log_line(kTime, LogLevel::info, "send failed", fields, false),
              "19:22:22.123 INFO  send failed  lane=orders  n=3  why=\"no route to host\"  empty=\"\"\n");
}

TEST(LogLine, ColourOnlyWhenAsked) {
    const std::vector<LogField> fields = {{"lane", "orders"}};
    EXPECT_THAT(human_log_line(kTime, LogLevel::error, "x", fields, true), HasSubstr("\x1b[31mERROR\x1b[0m"));
    EXPECT_THAT(human_log_line(kTime, LogLevel::error, "x", fields, false), Not(HasSubstr("\x1b")));
}

TEST(StderrLog, WritesFromItsThresholdOn) {
    testing::internal::CaptureStderr();
    const auto log = make_stderr_log(LogLevel::warn, LogFormat::json);
    log->debug("too quiet");
    log->info("too quiet");
    log->warn("loud", {{"n", 1}});
    log->error("louder");
    const std::string written = testing::internal::GetCapturedStderr();
    EXPECT_THAT(written, Not(HasSubstr("too quiet")));
    EXPECT_THAT(written, HasSubstr(R"("event":"loud","n":1})"));
    EXPECT_THAT(written, HasSubstr(R"("event":"louder"})"));
}

TEST(StderrLog, AutomaticIsJsonWhereThereIsNoTerminal) {
    testing::internal::CaptureStderr();
    make_stderr_log(LogLevel::info, LogFormat::automatic)->info("hello");
    const std::string written = testing::internal::GetCapturedStderr();
    EXPECT_EQ(parsed(written).at("event").as_string(), "hello");
}

TEST(StderrLog, HumanHasNoColourOffTheTerminal) {
    testing::internal::CaptureStderr();
    make_stderr_log(LogLevel::info, LogFormat::human)->info("hello");
    const std::string written = testing::internal::GetCapturedStderr();
    EXPECT_THAT(written, EndsWith(" INFO  hello\n"));
    EXPECT_THAT(written, Not(HasSubstr("\x1b")));
}

TEST(StderrLog, LinesOfManyThreadsStayWhole) {
    constexpr std::size_t kThreads = 4;
    constexpr std::size_t kLines = 200;
    testing::internal::CaptureStderr();
    const auto log = make_stderr_log(LogLevel::info, LogFormat::json);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&log, t] {
            const std::string filler(3000, static_cast<char>('a' + t));
            for (std::size_t i = 0; i < kLines; ++i) log->info("line", {{"filler", filler}});
        });
    }
    for (auto& thread : threads) thread.join();
    const std::string written = testing::internal::GetCapturedStderr();
    std::string_view rest = written;
    std::size_t lines = 0;
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        ASSERT_NE(end, std::string_view::npos);
        EXPECT_EQ(parsed(rest.substr(0, end + 1)).at("filler").as_string().size(), 3000U);
        rest.remove_prefix(end + 1);
        ++lines;
    }
    EXPECT_EQ(lines, kThreads * kLines);
}

}  // namespace
}  // namespace deliverd
