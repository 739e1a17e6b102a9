// For tests: the routes of dead letters on a store in memory, with a manager that does as the test says.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <utility>

#include "api/dlq_routes.h"
#include "api/testing/fake_dead_letters.h"
#include "base/testing/recording_log.h"

namespace deliverd::api {

inline constexpr const char* kLetterId = "550e8400-e29b-41d4-a716-446655440000";
inline constexpr const char* kUnknownId = "00000000-0000-4000-8000-000000000000";

inline store::LetterDetail a_letter(const std::string& id = kLetterId, const std::string& topic = "orders.dlq.v1") {
    store::LetterDetail detail;
    detail.letter.id = id;
    detail.letter.source = "kafka";
    detail.letter.provenance.original_topic = "orders.events.v1";
    detail.letter.provenance.error_message = "processing failed";
    detail.letter.payload = R"({"order_id":"123"})";
    detail.letter.topic = topic;
    detail.letter.partition = 0;
    detail.letter.offset = 7;
    detail.letter.created_at = detail.letter.updated_at = WallTime(std::chrono::seconds(1'771'583'400));
    detail.record.key = "k-1";
    detail.record.value = detail.letter.payload;
    return detail;
}

class DlqRoutesFixture : public testing::Test {
protected:
    http::Response ask(const http::Request& request) {
        std::promise<http::Response> answer;
        auto future = answer.get_future();
        handle_(request, http::Reply([&answer](http::Response response) { answer.set_value(std::move(response)); }));
        if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
            ADD_FAILURE() << "no answer";
            std::abort();  // the reply would write into this frame
        }
        return future.get();
    }
    http::Response call(const std::string& method, const std::string& target, http::Headers headers = {}) {
        const auto question = target.find('?');
        const std::string query = question == std::string::npos ? "" : target.substr(question + 1);
        return ask({method, "/api/v1/dlq" + target.substr(0, question), query, std::move(headers), "", "127.0.0.1"});
    }
    http::Response get(const std::string& target) { return call("GET", target); }
    http::Response post(const std::string& target) { return call("POST", target); }

    static std::string header(const http::Response& response, std::string_view name) {
        for (const auto& [key, value] : response.headers) {
            if (key == name) return value;
        }
        return "";
    }
    static boost::json::object body(const http::Response& response) {
        return boost::json::parse(response.body).as_object();
    }
    /// "status CODE: message", after a look at the shape that every error has.
    static std::string error_of(const http::Response& response) {
        const auto error = body(response).at("error");
        EXPECT_EQ(std::string(error.at("request_id").as_string()), header(response, "X-Request-Id"));
        EXPECT_TRUE(error.at("details").is_array());
        return std::to_string(response.status) + " " + std::string(error.at("code").as_string()) + ": " +
               std::string(error.at("message").as_string());
    }

    RecordingLog log_;
    FakeDeadLetters letters_;
    deadletter::RetryReport retry_report_;
    Result<deadletter::RedriveReport> redrive_report_;
    std::string retried_;        // "what by whom"
    deadletter::SendRule rule_;  // and by which rule
    DlqRetries retries_{{},
                        {[this](std::string_view id, std::string_view actor, const deadletter::SendRule& rule) {
                             retried_ = std::string(id) + " by " + std::string(actor);
                             rule_ = rule;
                             return retry_report_;
                         },
                         [this](std::string_view topic, std::string_view actor, const deadletter::SendRule& rule) {
                             retried_ = std::string(topic) + " by " + std::string(actor);
                             rule_ = rule;
                             return redrive_report_;
                         }},
                        log_};
    deadletter::Manager manager_{{}, letters_, nullptr, log_};  // for everything but retries
    http::DeferredHandler handle_ = make_handler(dlq_routes(retries_, manager_, letters_, log_), {}, log_);
};

}  // namespace deliverd::api
