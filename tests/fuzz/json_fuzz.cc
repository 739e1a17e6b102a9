// Any text, for the JSON reader, for the code that uses it (digests, databases, spools) and for the reader of orders.
// They agree on what JSON is, events have the right positions, the canonical form of a canonical form is itself, and an
// order is kept as it was written.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "base/canonical_json.h"
#include "base/json_check.h"
#include "base/json_reader.h"
#include "orders/order_request.h"
#include "require.h"
#include "spool/json_members.h"

namespace deliverd::fuzz {
namespace {

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [text](auto word) { return text.find(word) != std::string_view::npos; });
}

double number_of(std::string_view text) {
    double number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

bool is_number(std::string_view value) {
    return value.starts_with('-') || (value.front() >= '0' && value.front() <= '9');
}

void check_canonical(std::string_view text, const Result<std::string>& canonical) {
    if (!canonical) return require(!canonical.error().message.empty(), "a refusal says why");
    const auto again = canonical_json(*canonical);
    require(again && *again == *canonical, "the canonical form of a canonical form is itself");
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (is_number(text.substr(begin))) {
        require(number_of(text.substr(begin)) == number_of(*canonical), "a number keeps its value");
    }
}

void check_members(std::string_view text, const Result<std::string>& canonical) {
    const auto members = canonical_members(text);
    if (!members) return require(!canonical || !canonical->starts_with('{'), "an object has members");
    bool every = true;
    for (const CanonicalMember& member : *members) {
        require(member.value.data() >= text.data() &&
                    member.value.data() + member.value.size() <= text.data() + text.size(),
                "a member's value is a part of the text");
        const auto alone = canonical_json(member.value);
        if (member.canonical.empty()) {
            every = false;
            require(!alone && is_number(member.value), "only a number that a double cannot hold has no canonical form");
        } else {
            require(alone && *alone == member.canonical, "a member has the canonical form of its value");
        }
    }
    require(canonical.has_value() == every, "an object has a canonical form if all its members have one");
    if (every) require(canonical_object(*members) == *canonical, "the members form the object");
}

void check_readers_agree(std::string_view text, const Result<std::string>& canonical) {
    const auto problem = json_problem(text, JsonKind::any);
    const auto fault = spool::json_fault(text);
    if (canonical) {
        require(!fault, "a spool accepts JSON with a canonical form");
        require(!problem || has_any(*problem, {"U+0000", "exponent"}),
                "databases accept JSON with a canonical form, except NUL and huge exponents");
    }
    if (problem) {
        require(fault || has_any(*problem, {"U+0000", "exponent"}) || has_any(text, {"\\ud", "\\uD"}),
                "databases refuse only JSON that they cannot hold: NUL, huge exponents, lone surrogates");
        return;
    }
    require(!fault, "a spool accepts what databases accept");
    require(canonical || canonical.error().code == "json_duplicate_key" ||
                has_any(canonical.error().message, {"range of a double"}),
            "JSON without a canonical form has a repeated key or a number that is too large");
    require(!json_problem(text, JsonKind::object) == (text[text.find_first_not_of(" \t\r\n")] == '{'),
            "JSON is an object if it begins with a brace");
}

/// Events are in the order of the text, each inside its object or array.
void check_events(std::string_view text) {
    const char* at = text.data();
    std::size_t depth = 0;
    const auto check = [&](const JsonEvent& event) -> Result<void> {
        const bool end = event.token == JsonToken::object_end || event.token == JsonToken::array_end;
        const bool begin = event.token == JsonToken::object_begin || event.token == JsonToken::array_begin;
        if (end) --depth;
        require(event.depth == depth, "an event has the right depth");
        if (begin) ++depth;
        const char* const last = event.raw.data() + event.raw.size();
        require((end || event.raw.data() >= at) && last > at && last <= text.data() + text.size(),
                "an event has the right position");
        at = last;
        return {};
    };
    if (read_json(text, check, LoneSurrogates::replace)) require(depth == 0, "every object and array ends");
}

/// The key in the bodies of the seeds.
constexpr std::string_view kKey = "fuzz-key-0001";

void check_order(std::string_view text) {
    SeededRandom random(1);
    const auto reading = orders::read_order(kKey, text, {}, random);
    if (!reading.order) {
        return require(reading.refusal.status >= 400 && !reading.refusal.message.empty(), "a refusal says why");
    }
    const orders::OrderRequest& order = *reading.order;
    require(order.idempotency_key == kKey, "an order has the header's key");
    require(!json_problem(order.json, JsonKind::object), "databases accept every accepted order");
    const std::size_t begin = text.find('{');
    const std::string_view members = text.substr(begin, text.rfind('}') - begin);
    require(order.json.starts_with(members), "an order is stored as it was written");
    const auto again = orders::read_order(kKey, order.json, {}, random);
    require(again.order && again.order->json == order.json && again.order->digest == order.digest &&
                again.order->trace_id == order.trace_id,
            "a stored order is read like the posted one");
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    const std::string_view text = fuzz::text_of(data, size);
    const auto canonical = canonical_json(text);
    fuzz::check_canonical(text, canonical);
    fuzz::check_members(text, canonical);
    fuzz::check_readers_agree(text, canonical);
    fuzz::check_events(text);
    fuzz::check_order(text);
    return 0;
}
