#include "spool/entry.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json_text.h"
#include "base/text.h"
#include "base/try.h"
#include "message/retry_policy.h"
#include "spool/json_members.h"

namespace deliverd::spool {

namespace {

constexpr double kMostMs = 9e15;  // whole numbers up to here are exact in JavaScript, and years enough

std::string json_quoted(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

std::optional<SpoolState> state_of(std::string_view text) {
    for (const SpoolState state :
         {SpoolState::pending, SpoolState::retrying, SpoolState::exhausted, SpoolState::resolved}) {
        if (text == to_string(state)) return state;
    }
    return std::nullopt;
}

std::optional<std::string> text_in(const Members& members, std::string_view name) {
    const JsonMember* member = find_member(members, name);
    return member == nullptr ? std::nullopt : string_of(member->value);
}

/// Other writers of the format have times with a fraction, from their jitter. Rounded up, so that nothing is sent too
/// early. A number that an int64 cannot hold is cut, because the conversion would be undefined.
std::optional<std::int64_t> whole(const JsonMember* member) {
    if (member == nullptr) return std::nullopt;
    const auto number = number_of(member->value);
    if (!number) return std::nullopt;
    return static_cast<std::int64_t>(std::ceil(std::clamp(*number, -kMostMs, kMostMs)));
}

/// Other writers have a text in place of the object, or a number as its code.
SpoolFault fault_of(const JsonMember* member) {
    SpoolFault fault;
    if (member == nullptr) return fault;
    const auto members = split_object(member->value);
    if (!members) {
        fault.message = string_of(member->value).value_or("");
        return fault;
    }
    fault.message = text_in(*members, "message").value_or("");
    if (const JsonMember* code = find_member(*members, "code"); code != nullptr && code->value != "null") {
        fault.code = string_of(code->value).value_or(std::string(code->value));
    }
    return fault;
}

/// Keeps the other members of the error before, such as a stack.
std::string fault_json(const SpoolFault& fault, const Members& before) {
    const std::string message = shorten(one_line(fault.message), kMaxFaultBytes);
    const std::string code = fault.code ? json_quoted(shorten(one_line(*fault.code), kMaxFaultBytes)) : "null";
    return with_values(before, {{"message", json_quoted(message)}, {"code", code}});
}

Result<void> read_data(const Members& members, SpoolEntry& entry) {
    const JsonMember* data = find_member(members, "data");
    if (data == nullptr || !data->value.starts_with('{')) return unreadable("has no data object");
    TRY_ASSIGN(const auto inner, split_object(data->value));
    entry.endpoint = text_in(inner, "endpoint").value_or("");
    if (entry.endpoint.empty()) return unreadable("has no data.endpoint");
    const JsonMember* hook = find_member(inner, "hook");
    entry.payload = hook == nullptr ? "null" : std::string(hook->value);
    return {};
}

/// The members of an object that was read before; none if it is not an object.
Members members_of(std::string_view json) {
    return split_object(json).value_or(Members());
}

/// The line with only these members changed.
std::string changed(const SpoolEntry& entry, const NewValues& values) {
    return with_values(members_of(entry.json), values);
}

}  // namespace

std::int64_t unix_ms(WallTime time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::string make_job_id(std::string_view name, std::int64_t now_ms, Random& random) {
    constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
    constexpr int kRandomDigits = 6;
    std::string id = std::string(name) + "-" + std::to_string(now_ms) + "-";
    for (int i = 0; i < kRandomDigits; ++i) id.push_back(kDigits[random.below(kDigits.size())]);
    return id;
}

std::int64_t draw_delay_ms(std::int64_t attempt, Random& random) {
    // The longest wait is reached long before: this only makes the number fit the type.
    const auto bounded = static_cast<std::int32_t>(std::clamp<std::int64_t>(attempt, 1, 1000));
    return std::llround(spool_delay_ms(bounded, random.between(-1, 1)));
}

Result<SpoolEntry> parse_entry(std::string_view line) {
    TRY_ASSIGN(const auto members, split_object(line));
    SpoolEntry entry;
    // The reasons name the first member that is wrong, in the order of the file format.
    entry.job_id = text_in(members, "jobId").value_or("");
    if (entry.job_id.empty()) return unreadable("has no jobId");
    TRY(read_data(members, entry));
    const std::array<std::pair<std::string_view, std::int64_t*>, 4> numbers = {{{"attemptsMade", &entry.attempts_made},
                                                                                {"maxAttempts", &entry.max_attempts},
                                                                                {"timestamp", &entry.timestamp_ms},
                                                                                {"nextRetry", &entry.next_retry_ms}}};
    for (const auto& [name, target] : numbers) {
        const auto number = whole(find_member(members, name));
        if (!number) return unreadable("has no number " + std::string(name));
        *target = *number;
    }
    const auto state = state_of(text_in(members, "state").value_or(""));
    if (!state) return unreadable("has no valid state (pending, retrying, exhausted, resolved)");
    entry.state = *state;
    entry.resolved_at_ms = whole(find_member(members, "resolvedAt"));
    entry.error = fault_of(find_member(members, "error"));
    entry.dead_letter = text_in(members, "deadLetter");
    entry.revived_from = text_in(members, "revivedFrom");
    entry.json = std::string(line);
    return entry;
}

// By hand, because the payload goes out byte for byte as it was given.
void write_entry(SpoolEntry& entry) {
    std::string& out = entry.json;
    out = R"({"jobId":)" + json_quoted(entry.job_id);
    out += R"(,"data":{"hook":)" + entry.payload + R"(,"endpoint":)" + json_quoted(entry.endpoint);
    out += R"(},"attemptsMade":)" + std::to_string(entry.attempts_made);
    out += R"(,"maxAttempts":)" + std::to_string(entry.max_attempts);
    out += R"(,"timestamp":)" + std::to_string(entry.timestamp_ms);
    out += R"(,"nextRetry":)" + std::to_string(entry.next_retry_ms);
    out += R"(,"error":)" + fault_json(entry.error, {});
    out += R"(,"state":)" + json_quoted(to_string(entry.state)) + "}";
}

bool is_due(const SpoolEntry& entry, std::int64_t now_ms) {
    return entry.state == SpoolState::pending && entry.attempts_made < entry.max_attempts &&
           entry.next_retry_ms <= now_ms;
}

bool is_unmarked(const SpoolEntry& entry) {
    return entry.state == SpoolState::exhausted && !entry.dead_letter;
}

bool is_over(const SpoolEntry& entry, std::int64_t now_ms) {
    if (entry.state == SpoolState::resolved) {
        return now_ms - entry.resolved_at_ms.value_or(entry.timestamp_ms) > kKeepResolvedMs;
    }
    // nextRetry dates from the last failure: an entry that failed for a week is kept until someone can have seen it.
    const std::int64_t since = std::max(entry.timestamp_ms, entry.next_retry_ms);
    return entry.state == SpoolState::exhausted && now_ms - since > kKeepExhaustedMs;
}

std::string request_body(const SpoolEntry& entry) {
    const std::string key = json_quoted(entry.job_id);
    if (!entry.payload.starts_with('{')) {
        return R"({"idempotencyKey":)" + key + R"(,"payload":)" + entry.payload + "}";
    }
    return with_values(members_of(entry.payload), {{"idempotencyKey", key}});
}

std::string resolved_line(const SpoolEntry& entry, std::int64_t now_ms) {
    return changed(entry, {{"state", R"("resolved")"}, {"resolvedAt", std::to_string(now_ms)}});
}

bool is_last_attempt(const SpoolEntry& entry) {
    return entry.attempts_made + 1 >= entry.max_attempts;
}

std::string failed_line(const SpoolEntry& entry, const SpoolFault& fault, std::int64_t next_retry_ms) {
    const Members members = members_of(entry.json);
    const JsonMember* error = find_member(members, "error");
    const Members before = error == nullptr ? Members() : members_of(error->value);
    return with_values(members, {{"attemptsMade", std::to_string(entry.attempts_made + 1)},
                                 {"nextRetry", std::to_string(next_retry_ms)},
                                 {"error", fault_json(fault, before)},
                                 {"state", is_last_attempt(entry) ? R"("exhausted")" : R"("pending")"}});
}

std::string revived_line(const SpoolEntry& entry, std::int64_t now_ms, const std::optional<std::string>& receipt) {
    const std::optional<std::string>& from = receipt ? receipt : entry.dead_letter;
    NewValues values = {{"attemptsMade", "0"},
                        {"nextRetry", std::to_string(now_ms)},
                        {"state", R"("pending")"},
                        {"resolvedAt", ""},
                        {"deadLetter", ""}};
    if (from) values.emplace_back("revivedFrom", json_quoted(*from));
    return changed(entry, values);
}

std::string marked_line(const SpoolEntry& entry, std::string_view receipt) {
    return changed(entry, {{"deadLetter", json_quoted(receipt)}});
}

}  // namespace deliverd::spool

namespace deliverd {

double spool_delay_ms(std::int32_t attempt, double jitter) {
    constexpr double kMsASecond = 1000;
    const RetryPolicy policy = RetryPolicy::spool();
    const double drawn = std::isnan(jitter) ? 0 : std::clamp(jitter, -1.0, 1.0);
    const double grown = policy.base_seconds * std::pow(policy.factor, std::max(attempt, 1) - 1);
    return std::min(grown + drawn * policy.jitter_seconds, policy.cap_seconds) * kMsASecond;
}

}  // namespace deliverd
