#include "spool/entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <cmath>

#include "spool/json_members.h"

namespace deliverd::spool {
namespace {

using testing::HasSubstr;

/// As Node prints it: the seed's jitter makes nextRetry a fraction, and its code may be a number.
constexpr const char* kSeedLine =
    R"({"jobId":"hook-1770000000000-x1y2z3","data":{"hook":{"text":"日本語 \u0000","n":12345678901234567890},)"
    R"("endpoint":"https:\/\/api.example.com\/hooks"},"attemptsMade":1,"maxAttempts":5,"timestamp":1770000000000,)"
    R"("nextRetry":1770000061234.5679,"error":{"message":"503","code":503},"state":"pending"})";

TEST(SpoolEntry, WhatTheSeedWritesIsReadWithoutLoss) {
    const auto entry = parse_entry(kSeedLine);
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(entry->job_id, "hook-1770000000000-x1y2z3");
    EXPECT_EQ(entry->endpoint, "https://api.example.com/hooks");
    EXPECT_EQ(entry->payload, R"({"text":"日本語 \u0000","n":12345678901234567890})");
    EXPECT_EQ(entry->next_retry_ms, 1'770'000'061'235);
    EXPECT_EQ(entry->error.code, "503");
    EXPECT_EQ(entry->json, kSeedLine);
}

TEST(SpoolEntry, AChangeLeavesEverythingElseAsItIsWritten) {
    const std::string line =
        R"({ "x-mine": {"a": 1.50}, "jobId": "j", "data": {"endpoint": "http://e/", "hook": [1.0, 2], "more": 1},)"
        R"( "attemptsMade": 4, "maxAttempts": 5, "timestamp": 1e3, "nextRetry": 2, "error": {"message": "m",)"
        R"( "code": null, "stack": "s"}, "state": "pending", "tail": 12345678901234567890 })";
    const auto entry = parse_entry(line);
    ASSERT_TRUE(entry) << entry.error().message;
    EXPECT_EQ(failed_line(*entry, {"new \"words\"\n", "504"}, 99),
              R"({"x-mine":{"a": 1.50},"jobId":"j","data":{"endpoint": "http://e/", "hook": [1.0, 2], "more": 1},)"
              R"("attemptsMade":5,"maxAttempts":5,"timestamp":1e3,"nextRetry":99,"error":{"message":"new \"words\" ",)"
              R"("code":"504","stack":"s"},"state":"exhausted","tail":12345678901234567890})");
    const auto resolved = parse_entry(resolved_line(*entry, 77));
    ASSERT_TRUE(resolved);
    EXPECT_EQ(resolved->state, SpoolState::resolved);
    EXPECT_EQ(resolved->resolved_at_ms, 77);
    EXPECT_THAT(resolved->json, HasSubstr(R"("tail":12345678901234567890,"resolvedAt":77})"));
    const auto revived = parse_entry(revived_line(*resolved, 88));
    ASSERT_TRUE(revived);
    EXPECT_EQ(revived->state, SpoolState::pending);
    EXPECT_EQ(revived->attempts_made, 0);
    EXPECT_EQ(revived->next_retry_ms, 88);
    EXPECT_FALSE(revived->resolved_at_ms);
}

TEST(SpoolEntry, LinesThatAreNoEntriesSayWhy) {
    const auto why = [](const std::string& line) {
        const auto entry = parse_entry(line);
        return entry ? "read" : entry.error().message;
    };
    EXPECT_THAT(why("nonsense"), HasSubstr("not a JSON object"));
    EXPECT_THAT(why("[1]"), HasSubstr("not a JSON object"));
    EXPECT_THAT(why(R"({"jobId":"a")"), HasSubstr("it ends too early"));
    EXPECT_THAT(why(R"({"jobId":""})"), HasSubstr("no jobId"));
    EXPECT_THAT(why(R"({"jobId":"a"} x)"), HasSubstr("more follows"));
    EXPECT_THAT(why("{\"jobId\":\"\xff\"}"), HasSubstr("not UTF-8 at byte 10"));
    EXPECT_THAT(why(R"({"jobId":"a"})"), HasSubstr("no data object"));
    EXPECT_THAT(why(R"({"jobId":"a","data":[1]})"), HasSubstr("no data object"));
    EXPECT_THAT(why(R"({"jobId":"a","data":{}})"), HasSubstr("no data.endpoint"));
    EXPECT_THAT(why(R"({"jobId":"a","data":{"endpoint":"e"}})"), HasSubstr("no number attemptsMade"));
    EXPECT_THAT(why(R"({"jobId":"a","data":{"endpoint":"e"},"attemptsMade":1,"maxAttempts":5,"timestamp":1,)"
                    R"("nextRetry":1,"state":"odd"})"),
                HasSubstr("no valid state"));
    EXPECT_THAT(why(std::string(600, '[') + std::string(600, ']')), HasSubstr("not a JSON object"));
    EXPECT_THAT(why(R"({"a":)" + std::string(600, '[') + std::string(600, ']') + "}"), HasSubstr("nested deeper"));
    for (const char* wrong : {R"({"a":01})", R"({"a":1.})", R"({"a":.5})", R"({"a":+1})", R"({"a":1e})",
                              R"({"a":"\x"})", R"({"a":"\u12G4"})", "{\"a\":\"\t\"}", R"({"a":tru})", R"({"a":1,})",
                              R"({a:1})", R"({"a":[1,]})", R"({"a" 1})", R"({"a":NaN})", R"({"a":'x'})"}) {
        EXPECT_THAT(why(wrong), HasSubstr("is not JSON")) << wrong;
    }
}

TEST(SpoolEntry, TheBodyCarriesTheIdempotencyKey) {
    SpoolEntry entry;
    entry.job_id = "hook-1-\"q\"";
    const auto body = [&](const std::string& payload) {
        entry.payload = payload;
        return request_body(entry);
    };
    EXPECT_EQ(body(R"({"a": 1.0, "b":[2]})"), R"({"a":1.0,"b":[2],"idempotencyKey":"hook-1-\"q\""})");
    EXPECT_EQ(body("{}"), R"({"idempotencyKey":"hook-1-\"q\""})");
    EXPECT_EQ(body(R"({"idempotencyKey":"other","a":1})"), R"({"idempotencyKey":"hook-1-\"q\"","a":1})");
    EXPECT_EQ(body("[1, 2]"), R"({"idempotencyKey":"hook-1-\"q\"","payload":[1, 2]})");
    EXPECT_EQ(body("null"), R"({"idempotencyKey":"hook-1-\"q\"","payload":null})");
    EXPECT_EQ(body("\"text\""), R"({"idempotencyKey":"hook-1-\"q\"","payload":"text"})");
}

TEST(SpoolEntry, AgesCountFromWhereTheyShould) {
    constexpr std::int64_t kNow = 1'770'000'000'000;
    const auto over = [](SpoolState state, std::int64_t age, std::optional<std::int64_t> resolved_age) {
        SpoolEntry entry;
        entry.state = state;
        entry.timestamp_ms = kNow - age;
        if (resolved_age) entry.resolved_at_ms = kNow - *resolved_age;
        return is_over(entry, kNow);
    };
    EXPECT_FALSE(over(SpoolState::resolved, kKeepResolvedMs, std::nullopt));
    EXPECT_TRUE(over(SpoolState::resolved, kKeepResolvedMs + 1, std::nullopt));
    EXPECT_FALSE(over(SpoolState::resolved, 100 * kKeepResolvedMs, kKeepResolvedMs));
    EXPECT_TRUE(over(SpoolState::resolved, 100 * kKeepResolvedMs, kKeepResolvedMs + 1));
    EXPECT_FALSE(over(SpoolState::exhausted, kKeepExhaustedMs, std::nullopt));
    EXPECT_TRUE(over(SpoolState::exhausted, kKeepExhaustedMs + 1, std::nullopt));
    SpoolEntry late;
    late.state = SpoolState::exhausted;
    late.timestamp_ms = kNow - 100 * kKeepExhaustedMs;
    late.next_retry_ms = kNow - kKeepExhaustedMs;
    EXPECT_FALSE(is_over(late, kNow));
    EXPECT_TRUE(is_over(late, kNow + 1));
    EXPECT_FALSE(over(SpoolState::pending, 1000 * kKeepExhaustedMs, std::nullopt));
    EXPECT_FALSE(over(SpoolState::retrying, 1000 * kKeepExhaustedMs, std::nullopt));
}

/// An entry with these members in place of the usual ones.
Result<SpoolEntry> parse_with(const std::string& next_retry, const std::string& error) {
    return parse_entry(R"({"jobId":"a","data":{"endpoint":"e"},"attemptsMade":1,"maxAttempts":5,"timestamp":1,)"
                       R"("nextRetry":)" +
                       next_retry + R"(,"error":)" + error + R"(,"state":"pending"})");
}

TEST(SpoolEntry, TimesAreRoundedUpAndBounded) {
    const auto next_retry = [](const std::string& number) { return parse_with(number, "null").value().next_retry_ms; };
    EXPECT_EQ(next_retry("2.1"), 3);
    EXPECT_EQ(next_retry("-2.9"), -2);
    EXPECT_EQ(next_retry("1e300"), 9'000'000'000'000'000);
    EXPECT_EQ(next_retry("-1e300"), -9'000'000'000'000'000);
    EXPECT_FALSE(parse_with("\"1\"", "null"));
}

TEST(SpoolEntry, AnErrorIsReadHoweverItIsWritten) {
    const auto error = [](const std::string& json) { return parse_with("1", json).value().error; };
    EXPECT_EQ(error("null").message, "");
    EXPECT_EQ(error(R"("only text")").message, "only text");
    EXPECT_EQ(error(R"({"message":"m"})").message, "m");
    EXPECT_EQ(error(R"({"message":"m"})").code, std::nullopt);
    EXPECT_EQ(error(R"({"code":"E"})").code, "E");
    EXPECT_EQ(error(R"({"code":503})").code, "503");
    EXPECT_EQ(error(R"({"code":null})").code, std::nullopt);
}

TEST(SpoolEntry, AFailureReplacesAnErrorOfAnyForm) {
    for (const char* before : {"null", "\"text\"", R"({"message":"m","code":1})"}) {
        const SpoolEntry entry = parse_with("1", before).value();
        EXPECT_THAT(failed_line(entry, {"new", std::nullopt}, 5), HasSubstr(R"("error":{"message":"new","code":null})"))
            << before;
    }
    const std::string longer(kMaxFaultBytes + 1, 'x');
    const SpoolEntry entry = parse_with("1", "null").value();
    const auto cut = parse_entry(failed_line(entry, {longer, longer}, 5)).value().error;
    EXPECT_EQ(cut.message.size(), kMaxFaultBytes);
    EXPECT_EQ(cut.code.value_or("").size(), kMaxFaultBytes);
}

TEST(SpoolEntry, ALineWithoutAnErrorGetsOne) {
    const auto entry = parse_entry(
        R"({"jobId":"a","data":{"endpoint":"e"},"attemptsMade":1,"maxAttempts":5,"timestamp":1,"nextRetry":1,"state":"pending"})");
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->error.message, "");
    EXPECT_EQ(entry->payload, "null");
    EXPECT_THAT(failed_line(*entry, {"new", "E"}, 5), HasSubstr(R"("error":{"message":"new","code":"E"})"));
}

TEST(SpoolEntry, ReceiptsAreReadAndWritten) {
    const SpoolEntry entry = parse_with("1", "null").value();
    EXPECT_EQ(entry.dead_letter, std::nullopt);
    EXPECT_EQ(entry.revived_from, std::nullopt);
    const SpoolEntry marked = parse_entry(marked_line(entry, "letter \"1\"")).value();
    EXPECT_EQ(marked.dead_letter, "letter \"1\"");
    const SpoolEntry own = parse_entry(revived_line(marked, 7)).value();
    EXPECT_EQ(own.dead_letter, std::nullopt);
    EXPECT_EQ(own.revived_from, "letter \"1\"");
    EXPECT_EQ(parse_entry(revived_line(marked, 7, "other")).value().revived_from, "other");
    EXPECT_EQ(parse_entry(revived_line(entry, 7)).value().revived_from, std::nullopt);
}

TEST(SpoolEntry, OnlyAnExhaustedEntryWithoutAReceiptIsUnmarked) {
    SpoolEntry entry;
    for (const SpoolState state : {SpoolState::pending, SpoolState::retrying, SpoolState::resolved}) {
        entry.state = state;
        EXPECT_FALSE(is_unmarked(entry));
    }
    entry.state = SpoolState::exhausted;
    EXPECT_TRUE(is_unmarked(entry));
    entry.dead_letter = "letter";
    EXPECT_FALSE(is_unmarked(entry));
}

TEST(SpoolEntry, AnEntryIsDueAtItsTimeWithAttemptsLeft) {
    SpoolEntry entry;
    entry.attempts_made = 4;
    entry.next_retry_ms = 10;
    EXPECT_FALSE(is_due(entry, 9));
    EXPECT_TRUE(is_due(entry, 10));
    EXPECT_TRUE(is_last_attempt(entry));
    entry.attempts_made = 3;
    EXPECT_FALSE(is_last_attempt(entry));
    entry.attempts_made = 5;
    EXPECT_FALSE(is_due(entry, 10));
    EXPECT_TRUE(is_last_attempt(entry));
    entry.attempts_made = 0;
    entry.state = SpoolState::retrying;
    EXPECT_FALSE(is_due(entry, 10));
}

TEST(SpoolEntry, AJitterBeyondItsRangeIsCut) {
    EXPECT_EQ(spool_delay_ms(1, 5), 90'000);
    EXPECT_EQ(spool_delay_ms(1, -5), 30'000);
    EXPECT_EQ(spool_delay_ms(1, std::nan("")), 60'000);
}

/// The lowest and the highest number.
TEST(SpoolEntry, TheDrawnJitterHasItsWholeRange) {
    class Always final : public Random {
    public:
        explicit Always(std::uint64_t number) : number_(number) {}
        std::uint64_t next() override { return number_; }

    private:
        const std::uint64_t number_;
    };
    Always lowest(0);
    Always middle(std::uint64_t{1} << 63U);
    Always highest(~std::uint64_t{0});
    EXPECT_EQ(draw_delay_ms(2, lowest), 90'000);
    EXPECT_EQ(draw_delay_ms(2, middle), 120'000);
    EXPECT_EQ(draw_delay_ms(2, highest), 150'000);
    EXPECT_EQ(draw_delay_ms(0, middle), 60'000);
    EXPECT_EQ(draw_delay_ms(std::int64_t{1} << 40U, middle), 3'600'000);
    EXPECT_EQ(make_job_id("n", 5, lowest), "n-5-000000");
}

RC_GTEST_PROP(SpoolEntryProperty, DelaysStayWithinTheirLimits, ()) {
    const int attempt = *rc::gen::inRange(-5, 2000);
    const double jitter = *rc::gen::inRange(-1000, 1001) / 1000.0;
    const double delay = spool_delay_ms(attempt, jitter);
    const double middle = 60'000 * std::pow(2.0, std::max(attempt, 1) - 1);
    RC_ASSERT(delay >= 30'000);
    RC_ASSERT(delay <= 3'600'000);
    RC_ASSERT(delay >= std::min(middle - 30'000, 3'600'000.0));
    RC_ASSERT(delay <= middle + 30'000);
    SeededRandom random(*rc::gen::arbitrary<std::uint64_t>());
    const auto drawn = draw_delay_ms(attempt, random);
    RC_ASSERT(drawn >= 30'000 && drawn <= 3'600'000);
}

RC_GTEST_PROP(SpoolEntryProperty, JobIdsHaveTheirForm, (std::uint64_t seed)) {
    SeededRandom random(seed);
    const std::string id = make_job_id("hook", 1'770'000'000'000, random);
    RC_ASSERT(id.size() == 25U);
    RC_ASSERT(id.starts_with("hook-1770000000000-"));
    for (const char c : id.substr(19)) RC_ASSERT((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'));
}

/// The strings a JSON string can hold, and what an error may be: anything.
RC_GTEST_PROP(SpoolEntryProperty, WhatIsWrittenIsReadBack, ()) {
    SpoolEntry entry;
    entry.job_id = "hook-1-" + *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    entry.endpoint = "http://e/" + *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    entry.payload =
        boost::json::serialize(boost::json::value(*rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127))));
    entry.attempts_made = *rc::gen::inRange(0, 10);
    entry.next_retry_ms = *rc::gen::inRange<std::int64_t>(0, 2'000'000'000'000);
    entry.error = {*rc::gen::arbitrary<std::string>(), *rc::gen::arbitrary<std::string>()};
    write_entry(entry);
    RC_ASSERT(entry.json.find('\n') == std::string::npos);
    const auto read = parse_entry(entry.json);
    RC_ASSERT(read.has_value());
    RC_ASSERT(read->job_id == entry.job_id);
    RC_ASSERT(read->endpoint == entry.endpoint);
    RC_ASSERT(read->payload == entry.payload);
    RC_ASSERT(read->attempts_made == entry.attempts_made);
    RC_ASSERT(read->next_retry_ms == entry.next_retry_ms);
    const auto body = boost::json::parse(request_body(*read));
    RC_ASSERT(body.as_object().at("idempotencyKey").as_string() == entry.job_id);
}

/// Arbitrary bytes, and entries with a few bytes changed: read or refused, as another JSON parser has it, never a
/// crash.
RC_GTEST_PROP(SpoolEntryFuzz, ArbitraryBytesAreReadOrRefused, ()) {
    std::string text = kSeedLine;
    if (*rc::gen::arbitrary<bool>()) {
        text = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    } else {
        const int changes = *rc::gen::inRange(1, 6);
        for (int i = 0; i < changes; ++i) {
            const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
            text[at] = *rc::gen::weightedOneOf<char>(
                {{1, rc::gen::arbitrary<char>()}, {3, rc::gen::elementOf(std::string("{}[]\",:\\0u-e."))}});
        }
        text.resize(*rc::gen::inRange<std::size_t>(0, text.size() + 1));
    }
    boost::json::error_code error;
    boost::json::parse_options strict;
    strict.max_depth = kMaxJsonDepth;
    const auto other = boost::json::parse(text, error, {}, strict);
    const auto ours = split_object(text);
    // Boost refuses half of a surrogate pair, which JavaScript writes and RFC 8259 allows.
    if (!error) RC_ASSERT(ours.has_value() == other.is_object());
    if (ours && error) RC_ASSERT(text.find("\\u") != std::string::npos);
    RC_ASSERT(!json_fault(text) || !ours);
    const auto entry = parse_entry(text);
    if (entry) {
        RC_ASSERT(parse_entry(failed_line(*entry, {"e", "c"}, 5)).has_value());
        RC_ASSERT(parse_entry(resolved_line(*entry, 5)).has_value());
        RC_ASSERT(!json_fault(request_body(*entry)));
    }
}

}  // namespace
}  // namespace deliverd::spool
