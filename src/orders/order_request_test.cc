#include "orders/order_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>
#include <vector>

#include "base/canonical_json.h"

namespace deliverd::orders {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kKey = "order-0001";
const WallTime kNow = WallTime(std::chrono::milliseconds(1'700'000'000'000));

Reading read(std::string_view body, std::string_view header = kKey) {
    SeededRandom random(7);
    return read_order(header, body, kNow, random);
}

/// The members of an order that is fine, as `name` and JSON text.
using Fields = std::vector<std::pair<std::string, std::string>>;

Fields good_fields() {
    return {{"idempotency_key", R"("order-0001")"}, {"symbol", R"("AAPL")"}, {"intent", R"("BUY")"}, {"qty", "10"}};
}

std::string join(const Fields& fields) {
    std::string out = "{";
    for (const auto& [name, value] : fields) out += (out.size() > 1 ? ",\"" : "\"") + name + "\":" + value;
    return out + "}";
}

/// A good order with one member replaced or added.
std::string with(const std::string& name, const std::string& value) {
    Fields fields = good_fields();
    const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& part) { return part.first == name; });
    if (found == fields.end()) {
        fields.emplace_back(name, value);
    } else {
        found->second = value;
    }
    return join(fields);
}

std::string without(const std::string& name) {
    Fields fields = good_fields();
    std::erase_if(fields, [&](const auto& part) { return part.first == name; });
    return join(fields);
}

std::string code_of(std::string_view body, std::string_view header = kKey) {
    const Reading reading = read(body, header);
    return reading.order ? "accepted" : std::to_string(reading.refusal.status) + " " + reading.refusal.code;
}

/// Reads and expects that exactly `field` is wrong.
void expect_wrong(const std::string& body, const std::string& field, std::string_view header = kKey) {
    const Reading reading = read(body, header);
    ASSERT_FALSE(reading.order) << body;
    EXPECT_EQ(reading.refusal.status, 422) << body;
    EXPECT_EQ(reading.refusal.code, "VALIDATION_ERROR") << body;
    EXPECT_THAT(reading.refusal.message, HasSubstr(field));
    ASSERT_EQ(reading.refusal.details.size(), 1U) << body;
    EXPECT_EQ(reading.refusal.details[0].field, field) << body;
    EXPECT_FALSE(reading.refusal.details[0].message.empty());
}

void expect_right(const std::string& body, std::string_view header = kKey) {
    const Reading reading = read(body, header);
    EXPECT_TRUE(reading.order) << body << ": " << reading.refusal.message;
}

// The digests are sha256sum's of the canonical text written out by hand:
// {"intent":"BUY","limit_price":145.001,"meta":{"a":1,"b":[true,null]},"qty":10,"symbol":"AAPL"}
TEST(OrderRequest, IsKeptAsPostedAndDigestedInItsCanonicalForm) {
    const std::string body = R"({ "symbol":"AAPL","intent":"BUY", "qty":10.0,"limit_price":145.001,)"
                             R"("meta":{"b":[true,null],"a":1},"trace_id":"t-1","idempotency_key":"order-0001" })";
    const Reading reading = read("\n " + body + "\r\n");
    ASSERT_TRUE(reading.order) << reading.refusal.message;
    EXPECT_EQ(reading.order->idempotency_key, "order-0001");
    EXPECT_EQ(reading.order->json, body);
    EXPECT_EQ(reading.order->trace_id, "t-1");
    EXPECT_EQ(reading.order->digest, "sha256:2e276de8d6c028ace5800073af5389131942ae9819c6137d774b7d676c01c9aa");
}

// {"intent":"SELL","qty":0.5,"symbol":"BTC-USD"} and {"intent":"SELL","limit_price":null,"qty":0.5,"symbol":"BTC-USD"}
TEST(OrderRequest, ANullAndAnAbsentFieldDiffer) {
    const std::string head = R"({"idempotency_key":"order-0001","symbol":"BTC-USD","intent":"SELL","qty":5e-1)";
    EXPECT_EQ(read(head + "}").order->digest,
              "sha256:50556d2633bf6d1dcfd1dfa797f25d8f9d260ffd8f2fd1a76a99a90b8dd2e0c4");
    EXPECT_EQ(read(head + R"(,"limit_price":null})").order->digest,
              "sha256:f9eaa7de8aa92210398b19cf331db91bedaf334566c63793e802b5c87c0cc46f");
}

TEST(OrderRequest, GetsATraceIdAsLastMemberWhereItHasNone) {
    const std::string body = join(good_fields());
    const Reading reading = read(body + " ");
    ASSERT_TRUE(reading.order);
    // UUID version 7 of kNow, whose milliseconds are 0x18bcfe56800.
    EXPECT_THAT(reading.order->trace_id, AllOf(StartsWith("018bcfe5-6800-7"), testing::SizeIs(36)));
    EXPECT_EQ(reading.order->json,
              body.substr(0, body.size() - 1) + R"(,"trace_id":")" + reading.order->trace_id + "\"}");
    SeededRandom random(7);
    const std::string first = read_order(kKey, body, kNow, random).order->trace_id;
    EXPECT_NE(read_order(kKey, body, kNow, random).order->trace_id, first);
}

TEST(OrderRequest, KeepsNumbersAsWritten) {
    for (const std::string number : {"145.001", "12345678901234567890", "9007199254740993", "1.0", "1E5", "5e-324",
                                     "0.10000000000000000000000000000000001", "1.7976931348623157e308"}) {
        for (const std::string field : {"qty", "limit_price"}) {
            const Reading reading = read(with(field, number));
            ASSERT_TRUE(reading.order) << number << reading.refusal.message;
            EXPECT_THAT(reading.order->json, HasSubstr("\"" + field + "\":" + number + ","));
        }
        EXPECT_THAT(read(with("meta", "{\"x\":" + number + "}")).order->json, HasSubstr("{\"x\":" + number + "}"));
    }
}

TEST(OrderRequest, NeedsTheHeader) {
    EXPECT_EQ(code_of(join(good_fields()), ""), "400 IDEMPOTENCY_KEY_REQUIRED");
    EXPECT_EQ(code_of("not json", ""), "400 IDEMPOTENCY_KEY_REQUIRED");
}

TEST(OrderRequest, HeaderAndBodyMustAgreeBeforeTheFieldsAreLookedAt) {
    EXPECT_EQ(code_of(join(good_fields()), "order-0002"), "422 IDEMPOTENCY_MISMATCH");
    EXPECT_EQ(code_of(join(good_fields()), "ORDER-0001"), "422 IDEMPOTENCY_MISMATCH");
    EXPECT_EQ(code_of(with("qty", "-1"), "order-0002"), "422 IDEMPOTENCY_MISMATCH");
    EXPECT_EQ(code_of(with("idempotency_key", "\"order-0001 \"")), "422 IDEMPOTENCY_MISMATCH");
    EXPECT_EQ(code_of("{", "order-0002"), "400 BAD_JSON");
    expect_right(with("idempotency_key", R"("\u006frder-0001")"));
}

TEST(OrderRequest, KeysHave8To64Characters) {
    const auto key = [](const std::string& text) { return with("idempotency_key", "\"" + text + "\""); };
    const std::string e = "\xC3\xA9";  // é: one character, two bytes
    std::string longest;
    for (int i = 0; i < 64; ++i) longest += e;
    for (const std::string& text : {std::string("12345678"), std::string(64, 'x'), longest, std::string("a b/c?d%e"),
                                    e + e + e + e + e + e + e + e, std::string("\xF0\x9F\x98\x80-smiley")}) {
        expect_right(key(text), text);
    }
    for (const std::string& text : {std::string("1234567"), std::string(65, 'x'), longest + e, e + e + e + e,
                                    std::string("12345678 "), std::string(" 12345678"),
                                    std::string("1234\x7F"
                                                "5678"),
                                    std::string("1234\xC2\x85"
                                                "5678")}) {
        expect_wrong(key(text), "idempotency_key", text);
    }
    expect_wrong(key("1234\\n5678"), "idempotency_key", "1234\n5678");
    expect_wrong(key("1234\\u00005678"), "idempotency_key",
                 std::string_view("1234\0"
                                  "5678",
                                  9));
    expect_wrong(without("idempotency_key"), "idempotency_key");
    expect_wrong(with("idempotency_key", "12345678"), "idempotency_key", "12345678");
    expect_wrong(with("idempotency_key", "null"), "idempotency_key");
}

TEST(OrderRequest, SymbolsHaveAPattern) {
    for (const std::string text : {"ABC", "A.B", "0_-", "ABCDEFGHIJKLMNOPQRST"}) {
        expect_right(with("symbol", "\"" + text + "\""));
    }
    for (const std::string text : {R"("AB")", R"("ABCDEFGHIJKLMNOPQRSTU")", R"("abc")", R"("AB C")", R"("ABC\n")",
                                   R"("")", "\"AB\xC3\x84\"", "null", "1234", R"(["ABC"])", R"("ABC\u0000")"}) {
        expect_wrong(with("symbol", text), "symbol");
    }
    expect_wrong(without("symbol"), "symbol");
}

TEST(OrderRequest, IntentIsBuyOrSell) {
    expect_right(with("intent", R"("SELL")"));
    expect_right(with("intent", R"("\u0053ELL")"));
    for (const std::string text : {R"("buy")", R"("HOLD")", R"("BUY ")", "null", "true", "1"}) {
        expect_wrong(with("intent", text), "intent");
    }
    expect_wrong(without("intent"), "intent");
}

TEST(OrderRequest, QuantityIsAPositiveFiniteNumber) {
    for (const std::string text :
         {"0", "-0", "0.0", "0e5", "-1", "-1e-5", "1e400", "-1e400", "1e-400", "null", "\"10\"", "true", "[]", "{}"}) {
        expect_wrong(with("qty", text), "qty");
    }
    for (const std::string text : {"NaN", "Infinity", "-Infinity", "+1", "01", "1.", ".5", "0x10", "1_000"}) {
        EXPECT_EQ(code_of(with("qty", text)), "400 BAD_JSON") << text;
    }
    expect_wrong(without("qty"), "qty");
    EXPECT_THAT(read(with("qty", "1e400")).refusal.details[0].message, AllOf(HasSubstr("1e400"), HasSubstr("double")));
}

TEST(OrderRequest, LimitPriceIsPositiveOrNullOrAbsent) {
    expect_right(with("limit_price", "null"));
    expect_right(with("limit_price", "0.01"));
    for (const std::string text : {"0", "-0.0", "-1", "1e400", "1e-400", "\"1\"", "false", "[1]"}) {
        expect_wrong(with("limit_price", text), "limit_price");
    }
}

TEST(OrderRequest, TraceIdIsAShortText) {
    const std::string e = "\xC3\xA9";
    std::string longest;
    for (int i = 0; i < 128; ++i) longest += e;
    expect_right(with("trace_id", "\"" + longest + "\""));
    EXPECT_EQ(read(with("trace_id", R"("a\"\u00e9")")).order->trace_id, "a\"\xC3\xA9");
    for (const std::string& text : {"\"" + longest + "x\"", std::string("null"), std::string("\"\""), std::string("1"),
                                    std::string(R"("a\u0000b")")}) {
        expect_wrong(with("trace_id", text), "trace_id");
    }
}

/// It goes to the broker as a header. What cannot be one would be found out only when the order is sent.
TEST(OrderRequest, TraceIdCanBeAHeader) {
    expect_right(with("trace_id", R"("a b\u00a0c")"));
    for (const std::string text : {R"("a\nb")", R"("a\rb")", R"("a\tb")", R"("\u0001")", R"("a\u007f")",
                                   R"("a\u0085b")", R"("\u0085b")", R"("a\u0085")", R"(" ")", R"(" a")", R"("a ")"}) {
        expect_wrong(with("trace_id", text), "trace_id");
    }
    const Reading reading = read(with("trace_id", R"("a\nb")"));
    ASSERT_EQ(reading.refusal.details.size(), 1U);
    EXPECT_THAT(reading.refusal.details[0].message,
                HasSubstr("without control characters and without spaces at its ends"));
}

TEST(OrderRequest, MetaIsAnObjectThatCanBeStored) {
    expect_right(with("meta", "{}"));
    expect_right(with("meta", R"({"a":{"b":["\\u0000","\\\\u0000 1e99999","\u0001"]}})"));
    for (const std::string text :
         {"null", "[]", "\"x\"", "1", R"({"a":"\u0000"})", R"({"\u0000":1})", R"({"a":["\\\u0000"]})",
          "{\"a\":0e-99999}", "{\"a\":0e00012345}", "{\"a\":0e12345}"}) {
        expect_wrong(with("meta", text), "meta");
    }
    expect_right(with("meta", "{\"a\":0e-9999}"));
    expect_right(with("meta", "{\"a\":1.25e+00}"));
    expect_right(with("meta", "{\"a\":1." + std::string(998, '3') + "}"));
    expect_wrong(with("meta", "{\"a\":1." + std::string(999, '3') + "}"), "meta");
    expect_wrong(with("qty", "1." + std::string(20'000, '3')), "qty");
    const std::string infinite = with("meta", R"({"a":1e400})");
    EXPECT_EQ(code_of(infinite), "400 BAD_JSON");
    EXPECT_THAT(read(infinite).refusal.message, HasSubstr("at byte " + std::to_string(infinite.find("1e400"))));
}

TEST(OrderRequest, NamesUnknownFieldsAndWhatWasMeant) {
    expect_wrong(with("quantity", "1"), "quantity");
    expect_wrong(with("Symbol", "\"ABC\""), "Symbol");
    expect_wrong(with("limitprice", "1"), "limitprice");
    EXPECT_THAT(read(with("limitprice", "1")).refusal.details[0].message, HasSubstr("did you mean limit_price?"));
    EXPECT_THAT(read(with("colour", "1")).refusal.details[0].message,
                AllOf(HasSubstr("symbol"), HasSubstr("limit_price"), HasSubstr("meta")));
    expect_wrong(with("a\\nb", "1"), "a b");
}

TEST(OrderRequest, TellsAllWrongFieldsAtOnce) {
    const auto reading =
        read(R"({"symbol":"a","qty":0,"limit_price":-1,"trace_id":"","meta":[],"x":1,"idempotency_key":5,"y":null})");
    const auto named = [](const char* field) { return Field(&FieldProblem::field, field); };
    EXPECT_EQ(reading.refusal.code, "VALIDATION_ERROR");
    EXPECT_THAT(reading.refusal.details,
                ElementsAre(named("idempotency_key"), named("symbol"), named("intent"), named("qty"),
                            named("limit_price"), named("trace_id"), named("meta"), named("x"), named("y")));
}

TEST(OrderRequest, NamesOnlySoManyUnknownFields) {
    Fields fields = good_fields();
    for (int i = 0; i < 5000; ++i) fields.emplace_back("x" + std::to_string(i), "1");
    const auto reading = read(join(fields));
    ASSERT_EQ(reading.refusal.details.size(), kMaxUnknownFieldsNamed + 1);
    EXPECT_THAT(reading.refusal.details.back().message, HasSubstr("4980 more"));
    fields.resize(good_fields().size() + kMaxUnknownFieldsNamed);
    EXPECT_EQ(read(join(fields)).refusal.details.size(), kMaxUnknownFieldsNamed);
}

TEST(OrderRequest, RefusesDuplicateKeysByName) {
    const std::string twice = R"({"qty":1,"idempotency_key":"order-0001","symbol":"ABC","intent":"BUY","qty":2})";
    EXPECT_EQ(code_of(twice), "400 BAD_JSON");
    EXPECT_THAT(read(twice).refusal.message,
                AllOf(HasSubstr("\"qty\""), HasSubstr("at byte " + std::to_string(twice.size() - 1))));
    EXPECT_EQ(code_of(with("meta", R"({"a":1,"\u0061":1})")), "400 BAD_JSON");
}

TEST(OrderRequest, RefusesWhatIsNoJsonObject) {
    for (const std::string body : {"", " \n", "[]", "1", "null", "\"text\"", "{", "{}}", "{} {}", "{]", "nonsense"}) {
        EXPECT_EQ(code_of(body), "400 BAD_JSON") << body;
    }
    EXPECT_THAT(read(" ").refusal.message, HasSubstr("empty"));
    const std::string marked = "\xEF\xBB\xBF" + join(good_fields());
    EXPECT_EQ(code_of(marked), "400 BAD_JSON");
    EXPECT_THAT(read(marked).refusal.message, HasSubstr("byte order mark"));
    EXPECT_THAT(read("[]").refusal.message, HasSubstr("an object is expected at byte 0"));
    EXPECT_EQ(code_of(join(good_fields()) + "x"), "400 BAD_JSON");
    EXPECT_EQ(code_of(join(good_fields()) + std::string(1, '\0')), "400 BAD_JSON");
}

// What a hostile client sends: an answer, quickly, whatever it is.
TEST(OrderRequest, SurvivesHostileBodies) {
    const auto repeat = [](std::string_view piece, int times) {
        std::string out;
        for (int i = 0; i < times; ++i) out += piece;
        return out;
    };
    constexpr int kDeep = 10'000;
    constexpr int kMebibyte = 1024 * 1024;
    for (const std::string& meta :
         {repeat("[", kDeep), repeat("{\"a\":", kDeep), "{\"a\":" + repeat("[", kDeep) + repeat("]", kDeep) + "}",
          "{\"a\":\"" + repeat("\\ud800", 10) + "\"}", std::string("{\"a\":\"\\udc00\\ud800\"}"),
          std::string("{\"a\":\"\xED\xA0\x80\"}"), std::string("{\"a\":\"\xFF\"}"), std::string("{\"a\":\"\xC0\x80\"}"),
          "{\"a\":\"" + repeat("x", kMebibyte), "{\"a\":" + repeat("\\", kMebibyte) + "}", std::string("{\"a\":-}"),
          "{\"a\":" + repeat("-", kMebibyte) + "}", repeat("{\"\":", 127)}) {
        EXPECT_EQ(code_of(with("meta", meta)), "400 BAD_JSON") << meta.substr(0, 40);
    }
    expect_right(with("meta", "{\"a\":\"" + repeat("\\u00e9", kMebibyte / 6) + "\"}"));
    expect_right(with("meta", "{\"a\":" + repeat("[", 126) + repeat("]", 126) + "}"));
    expect_wrong(with("qty", repeat("9", kMebibyte)), "qty");
    expect_wrong(with("symbol", "\"" + repeat("A", kMebibyte) + "\""), "symbol");
    EXPECT_EQ(code_of(with(repeat("k", kMebibyte), "1")), "422 VALIDATION_ERROR");
    EXPECT_EQ(code_of(join(good_fields()), repeat("k", kMebibyte)), "422 IDEMPOTENCY_MISMATCH");
}

// --- properties ---------------------------------------------------------------------------------------------------

/// An order that is fine, with a member order of its own.
rc::Gen<Fields> any_fields() {
    const auto number = rc::gen::map(rc::gen::inRange(1, 1'000'000), [](int n) { return std::to_string(n) + ".25"; });
    const auto word = rc::gen::map(rc::gen::container<std::string>(rc::gen::inRange('a', 'z')),
                                   [](std::string text) { return "\"" + text.substr(0, 20) + "x\""; });
    const auto make = [](const std::string& qty, const std::string& price, const std::string& trace,
                         const std::string& meta, std::vector<int> order) {
        const Fields all = {{"idempotency_key", R"("order-0001")"},
                            {"symbol", R"("AAPL")"},
                            {"intent", R"("BUY")"},
                            {"qty", qty},
                            {"limit_price", price},
                            {"trace_id", trace},
                            {"meta", "{\"note\":" + meta + "}"}};
        Fields shuffled;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto place = static_cast<std::size_t>(order[i]) % (shuffled.size() + 1);
            shuffled.insert(shuffled.begin() + static_cast<std::ptrdiff_t>(place), all[i]);
        }
        return shuffled;
    };
    return rc::gen::apply(make, number, number, word, word,
                          rc::gen::container<std::vector<int>>(7, rc::gen::inRange(0, 100)));
}

/// The same object, with space wherever JSON allows it.
std::string spaced(const Fields& fields) {
    std::string out = " {\n";
    for (const auto& [name, value] : fields) out += (out.size() > 3 ? "\t,\"" : "\"") + name + "\" :\r\n" + value + " ";
    return out + "} ";
}

RC_GTEST_PROP(OrderRequestProperty, AnyBytesAreAnOrderOrARefusal, (const std::string& body)) {
    const Reading reading = read(body);
    RC_ASSERT(!reading.order && !reading.refusal.code.empty() && !reading.refusal.message.empty());
}

// A good order with a few bytes changed reaches the places that random bytes never do.
RC_GTEST_PROP(OrderRequestProperty, ADamagedOrderIsAnOrderOrARefusal, ()) {
    std::string body = spaced(*any_fields());
    for (const int damage : *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(0, 1'000'000))) {
        const auto at = static_cast<std::size_t>(damage) % body.size();
        body[at] = static_cast<char>(damage / 1000);
    }
    const Reading reading = read(body);
    RC_ASSERT(reading.order.has_value() == reading.refusal.code.empty());
    if (reading.order) RC_ASSERT(canonical_json(reading.order->json).has_value());
}

RC_GTEST_PROP(OrderRequestProperty, SpaceMemberOrderAndTraceIdDoNotCount, ()) {
    const Fields fields = *any_fields();
    Fields other = fields;
    std::reverse(other.begin(), other.end());
    std::erase_if(other, [](const auto& part) { return part.first == "trace_id"; });
    const Reading a = read(join(fields));
    const Reading b = read(spaced(other));
    RC_ASSERT(a.order.has_value() && b.order.has_value());
    RC_ASSERT(a.order->digest == b.order->digest);
}

RC_GTEST_PROP(OrderRequestProperty, AnyOtherChangeGivesAnotherDigest, ()) {
    const Fields fields = *any_fields();
    const std::string before = read(join(fields)).order->digest;
    const Fields changes = {{"symbol", R"("MSFT")"},  {"intent", R"("SELL")"}, {"qty", "0.75"},
                            {"limit_price", "0.75"},  {"limit_price", "null"}, {"meta", "{}"},
                            {"meta", R"({"note":0})"}};
    for (const auto& [name, value] : changes) {
        Fields changed = fields;
        for (auto& part : changed) {
            if (part.first == name) part.second = value;
        }
        RC_ASSERT(read(join(changed)).order->digest != before);
    }
    for (const std::string name : {"limit_price", "meta"}) {
        Fields fewer = fields;
        std::erase_if(fewer, [&](const auto& part) { return part.first == name; });
        RC_ASSERT(read(join(fewer)).order->digest != before);
    }
}

RC_GTEST_PROP(OrderRequestProperty, WhatIsStoredReadsAsWhatWasPosted, ()) {
    Fields fields = *any_fields();
    if (*rc::gen::arbitrary<bool>()) std::erase_if(fields, [](const auto& part) { return part.first == "trace_id"; });
    const std::string body = spaced(fields);
    const Reading reading = read(body);
    RC_ASSERT(reading.order.has_value());
    auto stored = boost::json::parse(reading.order->json).as_object();
    auto posted = boost::json::parse(body).as_object();
    RC_ASSERT(std::string(stored.at("trace_id").as_string()) == reading.order->trace_id);
    posted["trace_id"] = stored.at("trace_id");
    RC_ASSERT(stored == posted);
}

}  // namespace
}  // namespace deliverd::orders
