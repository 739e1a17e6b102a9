#include "sink/console/console_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

/// Outcomes in their order.
struct Outcomes final : OutcomeReceiver {
    void on_outcome(const Message& message, Outcome outcome) override {
        ids.push_back(message.id);
        outcomes.push_back(std::move(outcome));
    }
    std::vector<std::int64_t> ids;
    std::vector<Outcome> outcomes;
};

Message message(std::int64_t id, std::string body) {
    Message made;
    made.id = id;
    made.message_id = "memory-" + std::to_string(id);
    made.key = "space";
    made.body = std::move(body);
    made.content_type = "text/plain";
    made.headers = {{"a", "1"}, {"a", "2"}};
    return made;
}

/// Both ends of a pipe, the writing one as a stream.
struct Pipe {
    Pipe() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
        reader = ends[0];
        writer = ::fdopen(ends[1], "w");
    }
    ~Pipe() {
        close_reader();
        std::fclose(writer);
    }
    void close_reader() {
        if (reader >= 0) ::close(reader);
        reader = -1;
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    int reader = -1;
    std::FILE* writer = nullptr;
};

std::vector<std::string> lines_of(std::FILE* file) {
    std::vector<std::string> lines;
    std::rewind(file);
    std::string line;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
        if (c == '\n') {
            lines.push_back(std::exchange(line, {}));
        } else {
            line.push_back(static_cast<char>(c));
        }
    }
    EXPECT_EQ(line, "");
    return lines;
}

TEST(ConsoleSink, PrintsOneJsonLinePerMessage) {
    std::FILE* file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    const auto sink = make_console_sink(file);
    const auto first = message(1, "two\nlines \"quoted\" \u009b31m");
    const auto second = message(2, "not text: \xff");
    const Message* both[] = {&first, &second};
    Outcomes collector;
    sink->send(both, collector);
    EXPECT_EQ(collector.ids, (std::vector<std::int64_t>{1, 2}));
    for (const auto& outcome : collector.outcomes) EXPECT_EQ(outcome.kind, OutcomeKind::delivered);

    const auto lines = lines_of(file);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].find("\u009b"), std::string::npos) << "it steers terminals";
    const auto one = boost::json::parse(lines[0]).as_object();
    EXPECT_EQ(one.at("id"), 1);
    EXPECT_EQ(one.at("message_id"), "memory-1");
    EXPECT_EQ(one.at("key"), "space");
    EXPECT_EQ(one.at("body"), "two\nlines \"quoted\" \u009b31m");
    EXPECT_EQ(one.at("headers"), boost::json::parse(R"([["a","1"],["a","2"]])"));
    const auto two = boost::json::parse(lines[1]).as_object();
    EXPECT_EQ(two.at("body_hex"), "6e6f7420746578743a20ff");
    EXPECT_FALSE(two.contains("body"));
    std::fclose(file);
}

TEST(ConsoleSink, KeepsTheOrderWithWhatOthersPrint) {
    std::FILE* file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    const auto sink = make_console_sink(file);
    std::fputs("before\n", file);
    EXPECT_EQ(send_one(*sink, message(1, "x")).kind, OutcomeKind::delivered);
    const auto lines = lines_of(file);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0], "before");
    std::fclose(file);
}

TEST(ConsoleSink, SurvivesAClosedPipe) {
    Pipe pipe;
    const auto sink = make_console_sink(pipe.writer);
    EXPECT_TRUE(sink->check(std::chrono::seconds(1)));
    pipe.close_reader();
    const auto outcome = send_one(*sink, message(1, "x"));  // SIGPIPE has its default effect here: death
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "WRITE_FAILED");
    EXPECT_FALSE(sink->check(std::chrono::seconds(1)));
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(ConsoleSink, IsAmbiguousWhenOnlyPartOfALineWasWritten) {
    Pipe pipe;
    const auto sink = make_console_sink(pipe.writer, std::chrono::milliseconds(100));
    // More than a pipe holds, and nobody reads: the write stops in the middle until it times out.
    const auto outcome = send_one(*sink, message(1, std::string(1 << 20, 'x')));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << outcome.detail;
    EXPECT_EQ(outcome.code, "WRITE_FAILED");
}

TEST(ConsoleSink, WritesNothingOnceStopped) {
    std::FILE* file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    const auto sink = make_console_sink(file);
    sink->stop(std::chrono::seconds(1));
    sink->stop(std::chrono::seconds(0));
    EXPECT_EQ(send_one(*sink, message(1, "x")).kind, OutcomeKind::retryable);
    EXPECT_TRUE(lines_of(file).empty());
    std::fclose(file);
}

TEST(ConsoleSink, FindsAStreamThatCannotBeWritten) {
    std::FILE* file = std::fopen("/dev/null", "r");
    ASSERT_NE(file, nullptr);
    EXPECT_FALSE(make_console_sink(file)->check(std::chrono::seconds(1)));
    std::fclose(file);
}

}  // namespace
}  // namespace deliverd::sink
