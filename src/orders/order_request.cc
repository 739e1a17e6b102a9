#include "orders/order_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "base/canonical_json.h"
#include "base/json_reader.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/uuid.h"

namespace deliverd::orders {

namespace {

constexpr std::string_view kKey = "idempotency_key";
constexpr std::string_view kTraceId = "trace_id";
constexpr std::size_t kMaxShownBytes = 64;     // of the caller's text in a message
constexpr std::size_t kMaxExponentDigits = 4;  // beside kMaxNumberChars

using Members = std::vector<CanonicalMember>;

std::string shown(std::string_view text) {
    return shorten(one_line(text), kMaxShownBytes);
}

// --- one rule per field -------------------------------------------------------------------------------------------

bool has_control_character(std::string_view utf8) {
    for (std::size_t i = 0; i < utf8.size(); ++i) {
        const auto byte = static_cast<unsigned char>(utf8[i]);
        if (byte < 0x20 || byte == 0x7F) return true;
        // U+0080…U+009F are C2 80…C2 9F.
        if (byte == 0xC2 && i + 1 < utf8.size() && static_cast<unsigned char>(utf8[i + 1]) < 0xA0) return true;
    }
    return false;
}

/// For values that are sent as headers: those lose spaces at their ends and cannot hold control characters.
bool is_header_text(const CanonicalMember& member, std::size_t min_chars, std::size_t max_chars) {
    const auto text = json_string(member.value);
    if (!text || text->starts_with(' ') || text->ends_with(' ') || has_control_character(*text)) return false;
    const std::size_t length = count_characters(*text);
    return length >= min_chars && length <= max_chars;
}

bool is_key(const CanonicalMember& member) {
    return is_header_text(member, kMinKeyChars, kMaxKeyChars);
}

bool is_symbol(const CanonicalMember& member) {
    const auto text = json_string(member.value);
    const auto allowed = [](char c) { return is_upper(c) || is_digit(c) || c == '.' || c == '_' || c == '-'; };
    return text && text->size() >= 3 && text->size() <= 20 && std::ranges::all_of(*text, allowed);
}

bool is_intent(const CanonicalMember& member) {
    return member.canonical == R"("BUY")" || member.canonical == R"("SELL")";
}

/// In the canonical form every zero is "0", and a number that no double holds is empty.
bool is_positive_number(const CanonicalMember& member) {
    return !member.canonical.empty() && is_digit(member.canonical.front()) && member.canonical != "0";
}

bool is_positive_number_or_null(const CanonicalMember& member) {
    return member.canonical == "null" || is_positive_number(member);
}

bool is_trace_id(const CanonicalMember& member) {
    return is_header_text(member, 1, kMaxTraceIdChars);
}

bool is_object(const CanonicalMember& member) {
    return member.canonical.starts_with('{');
}

struct Rule {
    std::string_view field;
    bool required;
    bool (*holds)(const CanonicalMember&);
    std::string_view allowed;
};

constexpr std::array kRules = {
    Rule{kKey, true, is_key, "8 to 64 characters, without control characters and without spaces at its ends"},
    Rule{"symbol", true, is_symbol, "3 to 20 characters of A-Z, 0-9, '.', '_' and '-'"},
    Rule{"intent", true, is_intent, R"("BUY" or "SELL")"},
    Rule{"qty", true, is_positive_number, "a number greater than 0 that a double can hold"},
    Rule{"limit_price", false, is_positive_number_or_null,
         "a number greater than 0 that a double can hold, or null or absent for a market order"},
    Rule{kTraceId, false, is_trace_id,
         "a text of 1 to 128 characters, without control characters and without spaces at its ends"},
    Rule{"meta", false, is_object, "an object"},
};

constexpr auto kFields = [] {
    std::array<std::string_view, kRules.size()> names;
    std::ranges::transform(kRules, names.begin(), &Rule::field);
    return names;
}();

// --- what JSON allows and a database does not ---------------------------------------------------------------------

bool is_too_long_number(std::string_view number) {
    if (number.size() > kMaxNumberChars) return true;
    const std::size_t e = number.find_first_of("eE");
    if (e == std::string_view::npos) return false;
    const std::size_t digits = number.find_first_not_of("+-0", e + 1);
    return digits != std::string_view::npos && number.size() - digits > kMaxExponentDigits;
}

/// Why the JSON value `value` cannot be stored; none when it can.
std::optional<std::string> storage_problem(std::string_view value) {
    std::optional<std::string> problem;
    const auto check = [&problem](const JsonEvent& event) -> Result<void> {
        if (event.text.find('\0') != std::string_view::npos) {
            problem = "must not contain the character U+0000, which cannot be stored";
        } else if (event.token == JsonToken::number && is_too_long_number(event.raw)) {
            problem = fmt::format("has a number of more than {} characters or with an exponent beyond 9999: {}",
                                  kMaxNumberChars, shown(event.raw));
        }
        return {};
    };
    // canonical_members() has read it before.
    ASSERT(read_json(value, check));
    return problem;
}

// --- all fields ---------------------------------------------------------------------------------------------------

const CanonicalMember* find(const Members& members, std::string_view key) {
    const auto found = std::ranges::find(members, key, &CanonicalMember::key);
    return found == members.end() ? nullptr : &*found;
}

std::optional<std::string> problem_with(const Rule& rule, const CanonicalMember* member) {
    if (member == nullptr) {
        if (!rule.required) return std::nullopt;
        return fmt::format("is missing; it must be {}", rule.allowed);
    }
    // What PostgreSQL's jsonb cannot hold is refused for SQLite too: no order may depend on which database is used.
    if (auto problem = storage_problem(member->value)) return problem;
    if (rule.holds(*member)) return std::nullopt;
    return fmt::format("must be {}; it is {}", rule.allowed, shown(member->value));
}

std::string unknown_field(std::string_view key) {
    if (const auto meant = nearest(key, kFields))
        return fmt::format("is not a field of an order; did you mean {}?", *meant);
    return fmt::format("is not a field of an order; put it into meta, or use one of {}", fmt::join(kFields, ", "));
}

std::vector<FieldProblem> problems_in(const Members& members) {
    std::vector<FieldProblem> problems;
    for (const Rule& rule : kRules) {
        if (auto problem = problem_with(rule, find(members, rule.field))) {
            problems.push_back({std::string(rule.field), std::move(*problem)});
        }
    }
    std::size_t unknown = 0;
    for (const CanonicalMember& member : members) {
        if (std::ranges::find(kFields, member.key) != kFields.end()) continue;
        if (++unknown <= kMaxUnknownFieldsNamed) problems.push_back({shown(member.key), unknown_field(member.key)});
    }
    if (unknown > kMaxUnknownFieldsNamed) {
        problems.push_back({"…", fmt::format("{} more unknown fields", unknown - kMaxUnknownFieldsNamed)});
    }
    return problems;
}

// --- refusals -----------------------------------------------------------------------------------------------------

Reading refuse(int status, std::string code, std::string message, std::vector<FieldProblem> details = {}) {
    return {std::nullopt, {status, std::move(code), std::move(message), std::move(details)}};
}

Reading refuse_json(std::string_view body, const Error& error) {
    if (body.empty()) return refuse(400, "BAD_JSON", "the body is empty; an order is one JSON object");
    if (body.starts_with("\xEF\xBB\xBF")) {
        return refuse(400, "BAD_JSON", "the body begins with a byte order mark; send UTF-8 without one");
    }
    return refuse(400, "BAD_JSON", fmt::format("the body is not one JSON object: {}", error.message));
}

Reading refuse_fields(std::vector<FieldProblem> problems) {
    std::vector<std::string_view> names;
    for (const FieldProblem& problem : problems) names.emplace_back(problem.field);
    std::string message = fmt::format("the order is not valid; invalid fields: {}", fmt::join(names, ", "));
    return refuse(422, "VALIDATION_ERROR", std::move(message), std::move(problems));
}

// --- the order ----------------------------------------------------------------------------------------------------

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kJsonSpace = " \t\n\r";
    const std::size_t begin = text.find_first_not_of(kJsonSpace);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kJsonSpace) - begin + 1);
}

std::string digest_of(Members members) {
    // The same order posted again may have another trace id. The key is what the digest is stored under.
    std::erase_if(members, [](const CanonicalMember& member) { return member.key == kKey || member.key == kTraceId; });
    return "sha256:" + sha256_hex(canonical_object(members));
}

}  // namespace

Reading read_order(std::string_view header_key, std::string_view body, WallTime now, Random& random) {
    if (header_key.empty()) {
        return refuse(400, "IDEMPOTENCY_KEY_REQUIRED",
                      "the header Idempotency-Key is missing; send the order's idempotency_key in it");
    }
    const std::string_view text = trimmed(body);
    auto members = canonical_members(text);
    if (!members) return refuse_json(text, members.error());

    const CanonicalMember* key_member = find(*members, kKey);
    auto key = key_member == nullptr ? std::nullopt : json_string(key_member->value);
    // Before the fields, because with a wrong key the body may be that of another order.
    if (key && *key != header_key) {
        std::string message = fmt::format(
            "the header Idempotency-Key is '{}' and the body's idempotency_key '{}'; "
            "they must be equal",
            shown(header_key), shown(*key));
        return refuse(422, "IDEMPOTENCY_MISMATCH", std::move(message),
                      {{std::string(kKey), "must equal the header Idempotency-Key"}});
    }
    if (auto problems = problems_in(*members); !problems.empty()) return refuse_fields(std::move(problems));

    OrderRequest order;
    order.idempotency_key = std::move(*key);
    order.json = text;
    if (const CanonicalMember* trace_id = find(*members, kTraceId)) {
        order.trace_id = *json_string(trace_id->value);
    } else {
        order.trace_id = make_uuid_v7(now, random);
        // Before the closing brace, so that everything else stays as it was posted.
        order.json.insert(order.json.size() - 1, fmt::format(R"(,"trace_id":"{}")", order.trace_id));
    }
    order.digest = digest_of(std::move(*members));
    return {std::move(order), {}};
}

}  // namespace deliverd::orders
