// What existing clients of the API rely on, one test per promise. The state table is checked where the states are made.
#include <gmock/gmock.h>

#include "api/testing/dlq_routes_fixture.h"
#include "metrics/metrics.h"

namespace deliverd::api {
namespace {

using deadletter::RetryAnswer;

/// Routes as the service has them, with retries that resolve without Kafka.
class DlqCompatibility : public DlqRoutesFixture {
protected:
    DlqCompatibility() {
        std::vector<Route> routes = dlq_routes(resolving_, manager_, letters_, log_);
        for (Route& route : service_routes({}, metrics_, {})) routes.push_back(std::move(route));
        handle_ = make_handler(std::move(routes), {}, log_);
    }
    http::Response at(const std::string& path) { return ask({"GET", path, "", {}, "", "127.0.0.1"}); }

    deadletter::RetryReport retry(std::string_view id) {
        const auto found = letters_.find(id);
        if (!found || !*found) return {RetryAnswer::not_found, "", {}};
        if ((*found)->letter.status != store::LetterStatus::pending)
            return {RetryAnswer::conflict, "not retryable", {}};
        letters_.set_status(id, store::LetterStatus::resolved);
        return {RetryAnswer::resolved, "", {}};
    }
    deadletter::RedriveReport retry_all(std::string_view topic) {
        deadletter::RedriveReport report;
        store::LetterQuery query;
        query.topic = std::string(topic);
        const auto page = letters_.list(query);
        for (const auto& letter : page->letters) {
            if (retry(letter.id).answer == RetryAnswer::resolved) ++report.redrive.published;
        }
        return report;
    }

    metrics::Metrics metrics_;
    DlqRetries resolving_{
        {},
        {[this](std::string_view id, std::string_view, const deadletter::SendRule&) { return retry(id); },
         [this](std::string_view topic, std::string_view, const deadletter::SendRule&) { return retry_all(topic); }},
        log_};
};

TEST_F(DlqCompatibility, test_healthz_returns_ok) {
    const auto answer = at("/healthz");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"status":"ok"})");
}

TEST_F(DlqCompatibility, test_readyz_returns_ok) {
    EXPECT_EQ(at("/readyz").status, 200);
}

TEST_F(DlqCompatibility, test_metrics_returns_ok) {
    EXPECT_EQ(at("/metrics").status, 200);
}

TEST_F(DlqCompatibility, test_list_messages_empty_topic) {
    const auto answer = get("/orders.dlq.v1");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"messages":[],"pagination":{"total_count":0,"page":1,"page_size":20,"has_next":false,)"
                           R"("next_cursor":null,"total_is_minimum":false}})");
}

TEST_F(DlqCompatibility, test_list_messages_returns_stored_message) {
    letters_.add(a_letter());
    const auto found = body(get("/orders.dlq.v1"));
    EXPECT_EQ(found.at("pagination").at("total_count"), 1);
    const auto& message = found.at("messages").at(0).as_object();
    EXPECT_EQ(message.at("id").as_string(), kLetterId);
    EXPECT_EQ(message.at("original_topic").as_string(), "orders.events.v1");
    EXPECT_EQ(message.at("payload"), boost::json::parse(R"({"order_id":"123"})"));
    EXPECT_EQ(message.at("created_at").as_string(), "2026-02-20T10:30:00.000+00:00");
    EXPECT_EQ(body(get("/orders.events.v1")).at("pagination").at("total_count"), 1) << "also by its original topic";
}

TEST_F(DlqCompatibility, test_list_messages_pagination) {
    for (int i = 0; i < 25; ++i) letters_.add(a_letter("00000000-0000-4000-8000-0000000000" + std::to_string(10 + i)));
    const auto page = body(get("/orders.dlq.v1?page=2&page_size=10"));
    EXPECT_EQ(page.at("messages").as_array().size(), 10U);
    EXPECT_EQ(page.at("messages").at(0).at("id").as_string(), "00000000-0000-4000-8000-000000000024");
    EXPECT_EQ(page.at("pagination").at("total_count"), 25);
    EXPECT_TRUE(page.at("pagination").at("has_next").as_bool());
    EXPECT_FALSE(body(get("/orders.dlq.v1?page=3&page_size=10")).at("pagination").at("has_next").as_bool());
}

TEST_F(DlqCompatibility, test_get_message_returns_404_when_not_found) {
    EXPECT_EQ(error_of(get(std::string("/messages/") + kUnknownId)),
              std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kUnknownId);
}

TEST_F(DlqCompatibility, test_get_message_returns_message) {
    letters_.add(a_letter());
    const auto answer = get(std::string("/messages/") + kLetterId);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(body(answer).at("status").as_string(), "PENDING");
}

TEST_F(DlqCompatibility, test_get_message_returns_400_for_invalid_id) {
    EXPECT_EQ(error_of(get("/messages/not-a-uuid")), "400 SYS_DLQ_VALIDATION_ERROR: invalid message id: not-a-uuid");
}

TEST_F(DlqCompatibility, test_retry_message_returns_404_when_not_found) {
    EXPECT_EQ(error_of(post(std::string("/messages/") + kUnknownId + "/retry")),
              std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kUnknownId);
}

TEST_F(DlqCompatibility, test_retry_message_resolves_pending_message) {
    letters_.add(a_letter());
    const auto answer = post(std::string("/messages/") + kLetterId + "/retry");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body,
              std::string(R"({"id":")") + kLetterId + R"(","status":"RESOLVED","message":"message retry initiated"})");
    EXPECT_EQ(body(get(std::string("/messages/") + kLetterId)).at("status").as_string(), "RESOLVED");
}

TEST_F(DlqCompatibility, test_delete_message_returns_ok) {
    letters_.add(a_letter());
    const auto answer = call("DELETE", std::string("/messages/") + kLetterId);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, std::string(R"({"success":true,"message":"message )") + kLetterId + R"( deleted"})");
    EXPECT_EQ(get(std::string("/messages/") + kLetterId).status, 404);
    EXPECT_EQ(call("DELETE", std::string("/messages/") + kLetterId).status, 404);
}

TEST_F(DlqCompatibility, test_retry_all_returns_retried_count) {
    letters_.add(a_letter());
    letters_.add(a_letter(kUnknownId));
    letters_.set_status(kUnknownId, store::LetterStatus::dead);
    const auto answer = body(post("/orders.dlq.v1/retry-all"));
    EXPECT_EQ(answer.at("retried"), 1);
    EXPECT_EQ(answer.at("message").as_string(), "1 messages retried in topic orders.dlq.v1");
    EXPECT_EQ(body(post("/none.dlq.v1/retry-all")).at("retried"), 0);
}

}  // namespace
}  // namespace deliverd::api
