#include "api/dlq_routes.h"

#include <gmock/gmock.h>

#include "api/router.h"
#include "api/testing/dlq_routes_fixture.h"
#include "base/sha256.h"
#include "base/text.h"

namespace deliverd::api {
namespace {

using deadletter::RetryAnswer;
using testing::HasSubstr;
using testing::StartsWith;

class DlqRoutesTest : public DlqRoutesFixture {
protected:
    void SetUp() override { letters_.add(a_letter()); }
};

TEST_F(DlqRoutesTest, WhatIsNoUuidIs400AndGetsNoFurther) {
    for (const char* rest : {"", "/raw", "/audit"}) {
        EXPECT_EQ(error_of(get(std::string("/messages/not-a-uuid") + rest)),
                  "400 SYS_DLQ_VALIDATION_ERROR: invalid message id: not-a-uuid");
    }
    EXPECT_EQ(error_of(post("/messages/not-a-uuid/retry")),
              "400 SYS_DLQ_VALIDATION_ERROR: invalid message id: not-a-uuid");
    EXPECT_EQ(error_of(post("/messages/1%0A2/dead")), "400 SYS_DLQ_VALIDATION_ERROR: invalid message id: 1 2");
    EXPECT_EQ(error_of(call("DELETE", "/messages/x")), "400 SYS_DLQ_VALIDATION_ERROR: invalid message id: x");
    EXPECT_EQ(letters_.calls(), 0U);
    EXPECT_EQ(retried_, "");
}

TEST_F(DlqRoutesTest, UpperCaseIdsAreTheSameLetter) {
    const auto found = get("/messages/550E8400-E29B-41D4-A716-446655440000");
    EXPECT_EQ(found.status, 200);
    EXPECT_EQ(body(found).at("id").as_string(), kLetterId);
}

TEST_F(DlqRoutesTest, AListIsAskedForAsTheQuerySays) {
    const auto page =
        get("/orders.dlq.v1?page=3&page_size=50&status=PENDING&source=lane%3Aevents&error_class=a.B&text=50%25+off&key="
            "&from=2026-02-20T10:30:00.000+00:00&until=2026-02-20T10%3A31%3A00Z");
    EXPECT_EQ(page.status, 200) << page.body;
    const auto query = letters_.last_query();
    EXPECT_EQ(query.topic, "orders.dlq.v1");
    EXPECT_EQ(query.offset, 100);
    EXPECT_EQ(query.limit, 50);
    EXPECT_EQ(query.status, store::LetterStatus::pending);
    EXPECT_EQ(query.source, "lane:events");
    EXPECT_EQ(query.error_class, "a.B");
    EXPECT_EQ(query.text, "50% off");
    EXPECT_EQ(query.key, "");
    EXPECT_EQ(query.from, WallTime(std::chrono::seconds(1'771'583'400)));
    EXPECT_EQ(query.until, WallTime(std::chrono::seconds(1'771'583'460)));
    EXPECT_FALSE(query.after);
    EXPECT_EQ(body(page).at("pagination").at("page"), 3);
}

TEST_F(DlqRoutesTest, ACursorLeadsOnInPlaceOfAPage) {
    letters_.add(a_letter("00000000-0000-4000-8000-000000000002"));
    const auto first = get("/orders.dlq.v1?page_size=1");
    const auto pagination = body(first).at("pagination");
    EXPECT_TRUE(pagination.at("has_next").as_bool());
    const std::string cursor(pagination.at("next_cursor").as_string());
    const auto next = get("/orders.dlq.v1?page_size=1&cursor=" + cursor);
    EXPECT_EQ(next.status, 200);
    EXPECT_TRUE(body(next).at("pagination").at("page").is_null());
    const auto query = letters_.last_query();
    ASSERT_TRUE(query.after);
    EXPECT_EQ(query.after->id, "00000000-0000-4000-8000-000000000002");
    EXPECT_EQ(query.offset, 0);
    EXPECT_EQ(body(get("/t?page=2&cursor=" + cursor)).at("pagination").at("page"), 2) << "only repeated";
    EXPECT_EQ(letters_.last_query().offset, 0);
}

TEST_F(DlqRoutesTest, EveryWrongParameterIsNamed) {
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"page=0", "page"},
        {"page=-1", "page"},
        {"page=x", "page"},
        {"page=1.5", "page"},
        {"page=", "page"},
        {"page=99999999999999999999", "page"},
        {"page_size=0", "page_size"},
        {"page_size=101", "page_size"},
        {"cursor=zzz", "cursor"},
        {"status=pending", "status"},
        {"status=", "status"},
        {"source=kafak", "source"},
        {"source=lane:", "source"},
        {"from=yesterday", "from"},
        {"until=2026-02-30", "until"},
        {"text=", "text"},
        {"text=%ff", "text"},
        {"key=%00", "key"},
        {"colour=red", "colour"},
        {"page=1&page=2", "page"},
        {"error_class=" + std::string(513, 'x'), "error_class"},
    };
    for (const auto& [query, name] : wrong) {
        const auto answer = get("/orders.dlq.v1?" + query);
        EXPECT_THAT(error_of(answer), StartsWith("400 SYS_DLQ_VALIDATION_ERROR: " + name + " ")) << query;
        EXPECT_EQ(body(answer).at("error").at("details").at(0).at("field").as_string(), name);
    }
    EXPECT_THAT(get("/t?statsu=DEAD").body, HasSubstr("did you mean status?"));
    const auto two = get("/t?page=0&colour=red");
    EXPECT_EQ(body(two).at("error").at("details").as_array().size(), 2U);
    EXPECT_EQ(letters_.calls(), 0U);
}

TEST_F(DlqRoutesTest, TopicsMayBeCalledAnything) {
    for (const char* name : {"messages", "retry-all", "with/slash", "ключ", "%25", "'; drop table dlq--"}) {
        letters_.add(a_letter(kUnknownId, name));
        const auto page = get("/" + url_encoded(name));
        EXPECT_EQ(body(page).at("pagination").at("total_count"), 1) << name;
        EXPECT_EQ(letters_.last_query().topic, name);
    }
    EXPECT_EQ(body(get("/messages")).at("pagination").at("total_count"), 1);
    redrive_report_ = deadletter::RedriveReport{};
    EXPECT_EQ(post("/messages/retry-all").status, 200);
    EXPECT_EQ(retried_, "messages by anonymous");
}

TEST_F(DlqRoutesTest, CountsByTopic) {
    letters_.add(a_letter(kUnknownId, "mail.dlq.v1"));
    const auto topics = body(get("")).at("topics").as_array();
    ASSERT_EQ(topics.size(), 2U);
    EXPECT_EQ(topics[0].at("topic").as_string(), "mail.dlq.v1");
    EXPECT_EQ(topics[1].at("pending"), 1);
}

TEST_F(DlqRoutesTest, TheRawFormHasTheBytes) {
    const auto raw = body(get(std::string("/messages/") + kLetterId + "/raw"));
    EXPECT_EQ(raw.at("key_base64").as_string(), "ay0x");
    EXPECT_EQ(raw.at("value_text").as_string(), R"({"order_id":"123"})");
    EXPECT_EQ(error_of(get(std::string("/messages/") + kUnknownId + "/raw")),
              std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kUnknownId);
}

TEST_F(DlqRoutesTest, TheAuditOutlivesTheLetter) {
    const std::string path = std::string("/messages/") + kLetterId;
    EXPECT_EQ(get(path + "/audit").body, R"({"audit":[]})");
    EXPECT_EQ(call("DELETE", path).status, 200);
    EXPECT_EQ(body(get(path + "/audit")).at("audit").at(0).at("action").as_string(), "deleted");
    EXPECT_EQ(error_of(get(std::string("/messages/") + kUnknownId + "/audit")),
              std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kUnknownId);
}

TEST_F(DlqRoutesTest, WhatIsBeingRetriedIsNotDeleted) {
    const std::string path = std::string("/messages/") + kLetterId;
    letters_.hold(kLetterId);
    EXPECT_EQ(error_of(call("DELETE", path)),
              "409 SYS_DLQ_CONFLICT: message cannot be deleted: a retry of it is under way");
    letters_.hold("");
    EXPECT_EQ(call("DELETE", path).status, 200);
}

TEST_F(DlqRoutesTest, ALetterIsMarkedAsDeadOnce) {
    const std::string path = std::string("/messages/") + kLetterId + "/dead";
    letters_.hold(kLetterId);
    EXPECT_EQ(error_of(post(path)),
              "409 SYS_DLQ_CONFLICT: message cannot be marked as dead: a retry of it is under way");
    letters_.hold("");
    EXPECT_EQ(post(path).body,
              std::string(R"({"id":")") + kLetterId + R"(","status":"DEAD","message":"message marked as dead"})");
    EXPECT_EQ(error_of(post(path)),
              "409 SYS_DLQ_CONFLICT: message cannot be marked as dead: status=DEAD, retry_count=0/3");
    EXPECT_EQ(error_of(post(std::string("/messages/") + kUnknownId + "/dead")),
              std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kUnknownId);
}

TEST_F(DlqRoutesTest, WhatIsDeadIsRevivedOnce) {
    const std::string letter = std::string("/messages/") + kLetterId;
    EXPECT_EQ(error_of(post(letter + "/revive")),
              "409 SYS_DLQ_CONFLICT: message cannot be revived: status=PENDING, retry_count=0/3");
    EXPECT_EQ(post(letter + "/dead").status, 200);
    EXPECT_EQ(post(letter + "/revive").body, std::string(R"({"id":")") + kLetterId +
                                                 R"(","status":"PENDING","message":"message can be retried again"})");
    EXPECT_EQ(error_of(post(std::string("/messages/") + kUnknownId + "/revive")),
              std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kUnknownId);
}

TEST_F(DlqRoutesTest, EveryEndOfARetryHasItsAnswer) {
    const std::string path = std::string("/messages/") + kLetterId + "/retry";
    retry_report_ = {RetryAnswer::conflict, "message is not retryable: status=DEAD, retry_count=3/3", {}};
    EXPECT_EQ(error_of(post(path)), "409 SYS_DLQ_CONFLICT: message is not retryable: status=DEAD, retry_count=3/3");
    retry_report_ = {RetryAnswer::not_published, "nothing was published: no broker; it can be retried", {}};
    EXPECT_EQ(error_of(post(path)), "500 SYS_DLQ_INTERNAL_ERROR: nothing was published: no broker; it can be retried");
    retry_report_ = {RetryAnswer::in_doubt, "it may have been published,\nbut no broker confirmed it", {}};
    EXPECT_EQ(error_of(post(path)),
              "500 SYS_DLQ_INTERNAL_ERROR: it may have been published, but no broker confirmed it");
    retry_report_ = {RetryAnswer::not_found, "", {}};
    EXPECT_EQ(error_of(post(path)), std::string("404 SYS_DLQ_NOT_FOUND: dlq message not found: ") + kLetterId);
}

TEST_F(DlqRoutesTest, EveryEndOfARetryOfAllHasItsAnswer) {
    deadletter::RedriveReport report;
    report.redrive.published = 12;
    report.problem = "no broker can be reached";
    redrive_report_ = report;
    EXPECT_EQ(error_of(post("/t/retry-all")),
              "500 SYS_DLQ_INTERNAL_ERROR: 12 messages retried in topic t, not all: no broker can be reached");
    report.redrive.finished = true;
    report.redrive.in_doubt = 3;
    report.redrive.failed = 2;
    redrive_report_ = report;
    EXPECT_EQ(
        error_of(post("/t/retry-all")),
        "500 SYS_DLQ_INTERNAL_ERROR: 12 messages retried in topic t, not all: no broker can be reached; 3 may have "
        "been published, but no broker confirmed them. They are RETRYING with in_doubt; another retry could "
        "publish them a second time; 2 failed; what is left can be retried");
    report.problem.clear();
    report.not_tried = 4;
    report.not_tried_reason = "its original topic is itself for dead letters";
    redrive_report_ = report;
    const auto not_all = boost::json::parse(post("/t/retry-all").body).as_object();
    EXPECT_EQ(not_all.at("not_tried"), 4);
    EXPECT_EQ(not_all.at("message"),
              "12 messages retried in topic t; 4 were not tried: its original topic is itself for dead letters");
    EXPECT_EQ(error_of(post("/t/retry-all?error_class=E")),
              "400 SYS_DLQ_VALIDATION_ERROR: error_class is not a parameter of retry-all, which has dry_run");
    report.under_way_elsewhere = true;
    redrive_report_ = report;
    EXPECT_EQ(error_of(post("/t/retry-all")),
              "409 SYS_DLQ_CONFLICT: a retry of all messages in topic t is already under way");
    redrive_report_ = retryable("db_unreachable", "host 10.1.2.3 is away");
    const auto away = post("/t/retry-all");
    EXPECT_EQ(error_of(away),
              "503 SYS_DLQ_INTERNAL_ERROR: the database is out of reach; nothing was changed, ask again");
    EXPECT_EQ(header(away, "Retry-After"), "1");
}

TEST_F(DlqRoutesTest, ADryRunSaysWhereTheLettersWouldGoAndSendsNone) {
    letters_.add(a_letter(kUnknownId));
    auto looped = a_letter("00000000-0000-4000-8000-000000000001");
    looped.letter.provenance.original_topic = "loop.dlq.v1";
    letters_.add(looped);
    auto lane = a_letter("00000000-0000-4000-8000-000000000002");
    lane.letter.topic.reset();
    lane.letter.source = "lane:orders.dlq.v1";
    lane.letter.provenance.original_topic = "orders.dlq.v1";
    letters_.add(lane);
    const auto plan = post("/orders.dlq.v1/retry-all?dry_run=true");
    EXPECT_EQ(plan.status, 200);
    EXPECT_EQ(plan.body, R"({"dry_run":true,"matched":4,"by_destination":[)"
                         R"({"topic":"orders.events.v1","count":2,"refused":null},)"
                         R"({"topic":"loop.dlq.v1","count":1,"refused":"the topic is itself for dead letters"},)"
                         R"({"lane":"orders.dlq.v1","count":1,"refused":null}]})");
    EXPECT_EQ(retried_, "");
    EXPECT_EQ(post("/orders.dlq.v1/retry-all?dry_run=maybe").status, 400);
    EXPECT_EQ(retried_, "") << "nothing is sent when the question is unclear";
    redrive_report_ = deadletter::RedriveReport{};
    EXPECT_EQ(post("/orders.dlq.v1/retry-all?dry_run=false").status, 200);
    EXPECT_EQ(retried_, "orders.dlq.v1 by anonymous");
    letters_.fail_with(Error{ErrorClass::retryable, "db_unreachable", "host 10.1.2.3 is away"});
    EXPECT_THAT(error_of(post("/t/retry-all?dry_run=true")),
                StartsWith("503 SYS_DLQ_INTERNAL_ERROR: the database is out of reach; ask again"));
}

TEST_F(DlqRoutesTest, ADatabaseThatIsAwayIs503AndOneThatRefuses500) {
    const std::string letter = std::string("/messages/") + kLetterId;
    const std::vector<std::pair<std::string, std::string>> all = {{"GET", ""},
                                                                  {"GET", "/t"},
                                                                  {"GET", letter},
                                                                  {"GET", letter + "/raw"},
                                                                  {"GET", letter + "/audit"},
                                                                  {"POST", letter + "/dead"},
                                                                  {"POST", letter + "/revive"},
                                                                  {"DELETE", "?status=DEAD&older_than_seconds=0"},
                                                                  {"DELETE", letter}};
    for (const auto& [method, path] : all) {
        letters_.fail_with(Error{ErrorClass::retryable, "db_unreachable", "host 10.1.2.3 is away"});
        const auto away = call(method, path);
        EXPECT_THAT(error_of(away), StartsWith("503 SYS_DLQ_INTERNAL_ERROR: the database is out of reach")) << path;
        EXPECT_EQ(header(away, "Retry-After"), "1");
        letters_.fail_with(Error{ErrorClass::retryable, "db_timeout", "canceled"});
        EXPECT_THAT(error_of(call(method, path)), StartsWith("503 SYS_DLQ_INTERNAL_ERROR: the database took too long"));
        letters_.fail_with(Error{ErrorClass::ambiguous, "db_lost", "gone in the commit"});
        EXPECT_THAT(error_of(call(method, path)), HasSubstr("the change may have been made"));
        letters_.fail_with(Error{ErrorClass::permanent, "db_denied", "no such table"});
        const auto refused = call(method, path, {{"X-Request-Id", "req-77"}});
        EXPECT_THAT(error_of(refused), StartsWith("500 SYS_DLQ_INTERNAL_ERROR: ")) << path;
        EXPECT_EQ(refused.body.find("no such table"), std::string::npos);
    }
    EXPECT_THAT(log_.text(), HasSubstr("req-77 db_denied no such table"));
}

TEST_F(DlqRoutesTest, OldOnesAreDeletedByStateAndAgeInPieces) {
    const auto answer = call("DELETE", "?status=PENDING&older_than_seconds=3600&limit=700");
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto told = body(answer);
    EXPECT_EQ(told.at("purged").as_int64(), 1);
    EXPECT_FALSE(told.at("more").as_bool());
    EXPECT_EQ(told.at("message").as_string(), "1 PENDING messages deleted");
    ASSERT_FALSE(letters_.purges.empty());
    for (const auto& purge : letters_.purges) {
        EXPECT_EQ(purge.status, store::LetterStatus::pending);
        EXPECT_EQ(purge.age, std::chrono::hours(1));
        EXPECT_LE(purge.limit, 500);
    }
    EXPECT_EQ(body(get(std::string("/messages/") + kLetterId + "/audit")).at("audit").at(0).at("action").as_string(),
              "purged");
}

TEST_F(DlqRoutesTest, APurgeSaysWhenThereIsMore) {
    EXPECT_TRUE(body(call("DELETE", "?status=PENDING&older_than_seconds=0&limit=1")).at("more").as_bool())
        << "it does not look further than it may delete";
    EXPECT_FALSE(body(call("DELETE", "?status=PENDING&older_than_seconds=0&limit=1")).at("more").as_bool());
}

TEST_F(DlqRoutesTest, APurgeMustSayOfWhat) {
    const auto refusal = [this](const std::string& query) {
        const auto answer = call("DELETE", query);
        EXPECT_EQ(answer.status, 400) << query;
        return error_of(answer);
    };
    EXPECT_EQ(refusal(""), "400 SYS_DLQ_VALIDATION_ERROR: status must be given");
    EXPECT_EQ(refusal("?status=DEAD"), "400 SYS_DLQ_VALIDATION_ERROR: older_than_seconds must be given");
    EXPECT_THAT(refusal("?status=dead&older_than_seconds=1"), HasSubstr("status must be one of PENDING"));
    EXPECT_THAT(refusal("?status=DEAD&older_than_seconds=-1"), HasSubstr("must be a whole number from 0 to 315360000"));
    EXPECT_THAT(refusal("?status=DEAD&older_than_seconds=1&limit=10001"), HasSubstr("limit must be a whole number"));
    EXPECT_THAT(refusal("?status=DEAD&older_than_second=1"), HasSubstr("did you mean older_than_seconds?"));
    EXPECT_TRUE(letters_.purges.empty());
}

TEST_F(DlqRoutesTest, EachRoleMayDoItsPart) {
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"vera", Role::viewer, sha256_hex("v")},
                   {"otto", Role::operator_, sha256_hex("o")},
                   {"ada", Role::admin, sha256_hex("a")}};
    handle_ = make_handler(dlq_routes(retries_, manager_, letters_, log_), auth, log_);
    const auto as = [this](const std::string& token, const std::string& method, const std::string& path) {
        return call(method, path, {{"Authorization", "Bearer " + token}}).status;
    };
    redrive_report_ = deadletter::RedriveReport{};
    retry_report_ = {RetryAnswer::resolved, "", {}};
    const std::string letter = std::string("/messages/") + kLetterId;
    for (const std::string& path : {std::string(), std::string("/t"), letter, letter + "/raw", letter + "/audit"}) {
        EXPECT_EQ(call("GET", path).status, 401) << path;
        EXPECT_EQ(as("v", "GET", path), 200) << path;
    }
    for (const std::string& path : {letter + "/retry", std::string("/t/retry-all"), letter + "/dead"}) {
        EXPECT_EQ(as("v", "POST", path), 403) << path;
    }
    EXPECT_EQ(retried_, "");
    EXPECT_EQ(as("o", "POST", letter + "/retry"), 200);
    EXPECT_EQ(retried_, std::string(kLetterId) + " by otto");
    EXPECT_EQ(as("o", "POST", "/t/retry-all"), 200);
    EXPECT_EQ(retried_, "t by otto");
    EXPECT_EQ(as("o", "POST", letter + "/dead"), 200);
    EXPECT_EQ(as("o", "DELETE", letter), 403);
    EXPECT_EQ(as("o", "DELETE", "?status=RESOLVED&older_than_seconds=0"), 403);
    EXPECT_EQ(as("a", "DELETE", "?status=RESOLVED&older_than_seconds=0"), 200);
    EXPECT_EQ(as("a", "DELETE", letter), 200);
    const auto audit = letters_.audit(kLetterId, 10);
    ASSERT_TRUE(audit);
    ASSERT_EQ(audit->size(), 2U);
    EXPECT_EQ((*audit)[0].actor, "otto");
    EXPECT_EQ((*audit)[1].actor, "ada");
}

}  // namespace
}  // namespace deliverd::api
