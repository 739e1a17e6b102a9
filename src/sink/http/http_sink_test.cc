#include "sink/http/http_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/recording_log.h"
#include "http/server.h"
#include "sink/http/testing/fault_server.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

http::Response plain_error(int status, std::string_view code, std::string_view) {
    return {status, {}, "text/plain", std::string(code)};
}

/// A well-behaved receiver, and a sink that sends to it.
class HttpSinkTest : public testing::Test {
protected:
    void serve(http::Handler handler) {
        http::ServerOptions options;
        options.port = 0;
        options.handler_threads = 8;
        options.max_body_bytes = 8UL * 1024 * 1024;
        auto server = http::Server::start(options, std::move(handler), plain_error);
        ASSERT_TRUE(server) << server.error().message;
        server_ = std::move(*server);
    }

    /// Answers every request with `response` and remembers the last request.
    void serve_always(http::Response response) {
        serve([this, response](const http::Request& request) {
            const std::lock_guard lock(mutex_);
            last_ = request;
            ++requests_;
            return response;
        });
    }

    std::unique_ptr<Sink> sink(HttpSinkOptions options = {}) {
        if (options.url.empty()) options.url = "http://127.0.0.1:" + std::to_string(server_->port()) + "/in?a=b";
        auto made = make_http_sink(std::move(options), log_);
        EXPECT_TRUE(made) << made.error().message;
        return std::move(*made);
    }

    http::Request last() {
        const std::lock_guard lock(mutex_);
        return last_;
    }

    NullLog log_;
    std::unique_ptr<http::Server> server_;
    std::mutex mutex_;
    http::Request last_;
    int requests_ = 0;
};

TEST_F(HttpSinkTest, ATokenThatTheReceiverRepeatsIsNotKept) {
    serve([](const http::Request& request) {
        return http::Response{
            400, {}, "text/plain", "bad credentials: " + std::string(request.header("Authorization"))};
    });
    HttpSinkOptions options;
    options.headers = {{"Authorization", "Bearer SECRETTOKEN123"}};
    const auto http = sink(options);
    const auto outcome = send_one(*http, test_message(7));
    EXPECT_EQ(outcome.code, "BAD_REQUEST");
    EXPECT_EQ(outcome.detail, "HTTP 400: bad credentials: Bearer ***");
}

TEST_F(HttpSinkTest, AUrlsPasswordThatTheReceiverRepeatsIsNotKept) {
    serve([](const http::Request& request) {
        return http::Response{
            400, {}, "text/plain", "not s3cret-word: " + std::string(request.header("Authorization"))};
    });
    HttpSinkOptions options;
    options.url = "http://me:s3cret-word@127.0.0.1:" + std::to_string(server_->port()) + "/in";
    EXPECT_EQ(send_one(*sink(options), test_message(7)).detail, "HTTP 400: not ***: Basic ***");
}

TEST_F(HttpSinkTest, ATokenFromAFileThatTheReceiverRepeatsIsNotKept) {
    serve([](const http::Request& request) {
        const std::string token(request.header("Authorization").substr(7));
        return http::Response{400, {}, "text/plain", token + " " + token};
    });
    const auto path = std::filesystem::temp_directory_path() / ("deliverd_repeated_" + std::to_string(::getpid()));
    HttpSinkOptions options;
    options.token_file = path;
    for (const auto& [token, shown] :
         {std::pair("secret", "HTTP 400: *** ***"), {"short", "HTTP 400: short short"}}) {  // six letters and five
        std::ofstream(path, std::ios::trunc) << token;
        EXPECT_EQ(send_one(*sink(options), test_message(7)).detail, shown);
    }
    std::filesystem::remove(path);
}

TEST_F(HttpSinkTest, SendsNoHeaderThatItHasNoValueFor) {
    serve_always({200, {}, "text/plain", ""});
    auto message = test_message(7);
    message.message_id.clear();
    EXPECT_EQ(send_one(*sink(), message).kind, OutcomeKind::delivered);
    for (const auto& [name, value] : last().headers) {
        EXPECT_THAT(name,
                    testing::Not(testing::AnyOf(testing::StrCaseEq("Idempotency-Key"), testing::StrCaseEq("webhook-id"),
                                                testing::StrCaseEq("webhook-signature"))));
    }
}

TEST_F(HttpSinkTest, PostsTheExactBytesWithKeyTypeAndHeaders) {
    serve_always({200, {}, "application/json", "{}"});
    HttpSinkOptions options;
    options.url = "http://127.0.0.1:" + std::to_string(server_->port()) + "/in?a=b";
    options.headers = {{"X-Configured", "yes"}, {"X-Empty", ""}};
    const auto http = sink(options);
    auto message = test_message(7, std::string("\0binary\r\n\xff", 10));
    message.content_type = "application/octet-stream";
    message.headers = {{"X-Trace", "a: b; c"}};
    const auto outcome = send_one(*http, message);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    const auto request = last();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/in");
    EXPECT_EQ(request.query, "a=b");
    EXPECT_EQ(request.body, message.body);
    EXPECT_EQ(request.header("Content-Type"), "application/octet-stream");
    EXPECT_EQ(request.header("Idempotency-Key"), "memory-7");
    EXPECT_EQ(request.header("X-Trace"), "a: b; c");
    EXPECT_EQ(request.header("X-Configured"), "yes");
    EXPECT_EQ(std::count_if(request.headers.begin(), request.headers.end(),
                            [](const auto& header) { return header.first == "X-Empty"; }),
              1);
    EXPECT_EQ(request.header("Expect"), "");
}

TEST_F(HttpSinkTest, SendsLargeAndEmptyBodies) {
    serve_always({204, {}, "", ""});
    const auto http = sink();
    const auto large = test_message(1, std::string(3'000'000, 'x'));
    EXPECT_EQ(send_one(*http, large).kind, OutcomeKind::delivered);
    EXPECT_EQ(last().body.size(), 3'000'000U);
    EXPECT_EQ(send_one(*http, test_message(2, "")).kind, OutcomeKind::delivered);
    EXPECT_EQ(last().header("Content-Length"), "0");
}

TEST_F(HttpSinkTest, ClassifiesAnswers) {
    serve([](const http::Request& request) {
        const int status = std::stoi(request.body);
        return http::Response{status, {{"Retry-After", "17"}, {"Location", "/elsewhere"}}, "text/plain", "because"};
    });
    const auto http = sink();
    struct Case {
        const char* status;
        OutcomeKind kind;
        const char* code;
    };
    for (const auto& c :
         {Case{"400", OutcomeKind::permanent, "BAD_REQUEST"}, Case{"401", OutcomeKind::permanent, "UNAUTHORIZED"},
          Case{"503", OutcomeKind::retryable, "BROKER_5XX"}, Case{"302", OutcomeKind::retryable, "UNKNOWN"}}) {
        const auto outcome = send_one(*http, test_message(1, c.status));
        EXPECT_EQ(outcome.kind, c.kind) << c.status;
        EXPECT_EQ(outcome.code, c.code) << c.status;
        EXPECT_THAT(outcome.detail, HasSubstr("because"));
    }
    const auto limited = send_one(*http, test_message(1, "429"));
    EXPECT_EQ(limited.code, "RATE_LIMITED");
    EXPECT_EQ(limited.retry_after, Duration(17s));
}

TEST_F(HttpSinkTest, TakesTheReceiptFromTheAnswer) {
    serve_always({200, {}, "application/json", R"({"id": 12345678901234567, "memory_id": "m-1"})"});
    HttpSinkOptions options;
    options.receipt_fields = {"memory_id", "id"};
    EXPECT_EQ(send_one(*sink(options), test_message(1)).receipt, "m-1");
    options.receipt_fields = {"none", "id"};
    EXPECT_EQ(send_one(*sink(options), test_message(1)).receipt, "12345678901234567");
    EXPECT_EQ(send_one(*sink(), test_message(1)).receipt, std::nullopt);
}

TEST_F(HttpSinkTest, ARefusalHasNoReceipt) {
    serve_always({422, {}, "application/json", R"({"id": 1})"});
    HttpSinkOptions options;
    options.receipt_fields = {"id"};
    EXPECT_EQ(send_one(*sink(options), test_message(1)).receipt, std::nullopt);
}

TEST_F(HttpSinkTest, ABrokersAnswerMustCarryTheKeyBack) {
    serve([](const http::Request& request) {  // the body says what to answer
        const auto key = request.header("Idempotency-Key");
        if (request.body == "conflict") {
            return http::Response{409, {}, "application/json", R"({"outcome":"seen"})"};
        }
        const std::string named = request.body == "ours" ? std::string(key) : "another";
        return http::Response{201, {}, "application/json", R"({"id":9,"idempotency_key":")" + named + "\"}"};
    });
    HttpSinkOptions options;
    options.broker = ProcessedMatch{{"outcome"}, "seen", ""};
    const auto http = sink(options);
    const auto ours = send_one(*http, test_message(1, "ours"));
    EXPECT_EQ(ours.kind, OutcomeKind::delivered) << ours.detail;
    EXPECT_EQ(ours.receipt, "9");
    ASSERT_TRUE(ours.answer);
    EXPECT_EQ(ours.answer->body, R"({"id":9,"idempotency_key":"memory-1"})");
    const auto another = send_one(*http, test_message(2, "another"));
    EXPECT_EQ(another.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(another.code, "UNKNOWN");
    const auto conflict = send_one(*http, test_message(3, "conflict"));
    EXPECT_EQ(conflict.code, "CONFLICT_PROCESSED");
    ASSERT_TRUE(conflict.answer);
    EXPECT_EQ(conflict.answer->digest, kDigestFromConflict);
}

TEST_F(HttpSinkTest, ABrokersAnswerThatIsTooLongSaysWhatToRaise) {
    const std::string answer = R"({"idempotency_key":"memory-1"})";
    serve_always({200, {}, "application/json", answer + std::string(1000, ' ')});
    HttpSinkOptions options;
    options.broker = ProcessedMatch{};
    options.max_answer_bytes = answer.size();  // what is read looks whole
    const auto cut = send_one(*sink(options), test_message(1));
    EXPECT_EQ(cut.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(cut.code, "UNKNOWN");
    EXPECT_THAT(cut.detail, HasSubstr("max_answer_bytes"));
    options.max_answer_bytes = answer.size() + 1000;
    EXPECT_EQ(send_one(*sink(options), test_message(1)).kind, OutcomeKind::delivered);
}

TEST_F(HttpSinkTest, SendsAsManyAtOnceAsItHasConnections) {
    std::mutex mutex;
    std::condition_variable changed;
    int inside = 0;
    bool all = false;
    serve([&](const http::Request&) {
        std::unique_lock lock(mutex);
        if (++inside == 8) all = true;
        changed.notify_all();
        const bool together = changed.wait_for(lock, kTestPatience, [&] { return all; });
        return http::Response{together ? 200 : 500, {}, "text/plain", ""};
    });
    const auto http = sink();
    std::vector<Message> messages;
    for (int i = 0; i < 8; ++i) messages.push_back(test_message(i));
    Collector collector;
    http->send(pointers_to(messages), collector);
    ASSERT_TRUE(collector.wait_for(8));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(collector.of(i).front().kind, OutcomeKind::delivered);
}

TEST_F(HttpSinkTest, RefusesMessagesWhoseHeadersWouldBreakTheRequest) {
    serve_always({200, {}, "text/plain", ""});
    const auto http = sink();
    for (const auto& header : {std::pair<std::string, std::string>{"X-A", "b\r\nX-Evil: 1"},
                               {"X A", "b"},
                               {"", "b"},
                               {"Content-Length", "3"},
                               {"transfer-encoding", "chunked"},
                               {"Host", "evil"},
                               {"authorization", "Bearer x"},
                               {"Cookie", "a=b"},
                               {"Forwarded", "for=1.2.3.4"},
                               {"X-Forwarded-For", "1.2.3.4"},
                               {"Connection", "close"},
                               {"Upgrade", "h2c"},
                               {"Proxy-Authorization", "x"}}) {
        auto message = test_message(1);
        message.headers = {header};
        const auto outcome = send_one(*http, message);
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << header.first;
        EXPECT_EQ(outcome.code, "BAD_REQUEST");
    }
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(requests_, 0);
}

TEST_F(HttpSinkTest, RefusesOptionsThatCannotWork) {
    const auto code_of = [&](HttpSinkOptions options) {
        const auto made = make_http_sink(std::move(options), log_);
        return made ? std::string("made") : made.error().code + ": " + made.error().message;
    };
    HttpSinkOptions options;
    for (const auto* url :
         {"", "ftp://host/", "file:///etc/passwd", "http://", "not a url", "http://u:s3cret@ho st/"}) {
        options.url = url;
        EXPECT_THAT(code_of(options), testing::StartsWith("bad_argument")) << url;
        EXPECT_THAT(code_of(options), testing::Not(HasSubstr("s3cret")));
    }
    options.url = "http://127.0.0.1/";
    options.headers = {{"X-A", "b\nc"}};
    EXPECT_THAT(code_of(options), testing::StartsWith("bad_argument"));
    options.headers = {};
    options.max_connections = 0;
    EXPECT_THAT(code_of(options), testing::StartsWith("bad_argument"));
}

TEST_F(HttpSinkTest, ChecksWithoutSendingAMessage) {
    serve_always({200, {}, "text/plain", ""});
    const auto http = sink();
    EXPECT_TRUE(http->check(5s));
    server_->stop(0s);
    const auto gone = http->check(5s);
    ASSERT_FALSE(gone);
    EXPECT_THAT(gone.error().message, HasSubstr("127.0.0.1:"));
    EXPECT_EQ(requests_, 0);
}

TEST_F(HttpSinkTest, ReadsItsTokenAgainWhenTheFileChanges) {
    serve_always({200, {}, "text/plain", ""});
    const auto path = std::filesystem::temp_directory_path() / ("deliverd_token_" + std::to_string(::getpid()));
    const auto write = [&](std::string_view token) { std::ofstream(path, std::ios::trunc) << token << "\n"; };
    RecordingLog log;
    HttpSinkOptions options;
    options.url = "http://127.0.0.1:" + std::to_string(server_->port()) + "/";
    options.token_file = path;
    auto made = make_http_sink(options, log);
    ASSERT_TRUE(made);
    auto& http = **made;
    write("first-s3cret");
    EXPECT_EQ(send_one(http, test_message(1)).kind, OutcomeKind::delivered);
    EXPECT_EQ(last().header("Authorization"), "Bearer first-s3cret");
    write("second-s3cret!");
    EXPECT_EQ(send_one(http, test_message(2)).kind, OutcomeKind::delivered);
    EXPECT_EQ(last().header("Authorization"), "Bearer second-s3cret!");
    for (const auto* bad : {"", "two s3cret", "s3cret\nline"}) {
        write(bad);
        const auto outcome = send_one(http, test_message(3));
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
        EXPECT_EQ(outcome.code, "TOKEN_UNREADABLE");
        EXPECT_TRUE(outcome.not_attempted);
        EXPECT_THAT(outcome.detail, HasSubstr(path.string()));
        EXPECT_THAT(outcome.detail, testing::Not(HasSubstr("s3cret")));
    }
    std::filesystem::remove(path);
    EXPECT_EQ(send_one(http, test_message(4)).code, "TOKEN_UNREADABLE");
    const auto checked = http.check(5s);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr(path.string()));
    write("third");
    EXPECT_TRUE(http.check(5s));
    EXPECT_EQ(send_one(http, test_message(5)).kind, OutcomeKind::delivered);
    std::filesystem::remove(path);
    http.stop(0s);
    EXPECT_THAT(log.text(), testing::Not(HasSubstr("s3cret")));
    EXPECT_EQ(log.events().size(), 1U);  // when the file turned bad, not with each message
}

}  // namespace
}  // namespace deliverd::sink
