#include "store/letter_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_check.h"
#include "base/text.h"
#include "base/try.h"
#include "base/uuid.h"
#include "store/outbox_row.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store {
namespace {

std::string where(const Record& record) {
    return one_line(record.topic) + "[" + std::to_string(record.partition) + "]@" + std::to_string(record.offset);
}

std::string_view text_or_empty(const std::optional<std::string>& text) {
    return text ? std::string_view(*text) : std::string_view();
}

}  // namespace

std::optional<LetterStatus> letter_status(std::string_view text) {
    const auto* found = std::ranges::find(kLetterStatusNames, text);
    if (found == kLetterStatusNames.end()) return std::nullopt;
    return static_cast<LetterStatus>(found - kLetterStatusNames.begin());
}

bool is_letter_source(std::string_view text) {
    const auto names_one = [text](std::string_view prefix) {
        return text.starts_with(prefix) && text.size() > prefix.size();
    };
    return text == "kafka" || names_one("lane:") || names_one("spool:");
}

// A redrive sends letters in the order of created_at and id. The letters of one call share their time, and on SQLite,
// whose times have milliseconds, so do those of several calls. So the microseconds and the number are where a UUID
// version 7 has random bits: the 12 bits behind the version, and the first 12 behind the variant.
std::string letter_id(WallTime now, std::size_t number, Random& random) {
    constexpr std::size_t kHalfBits = 12;
    constexpr std::size_t kNumberBits = 14;
    constexpr std::size_t kHalfMask = (1U << kHalfBits) - 1;
    constexpr std::size_t kNumberMask = (1U << kNumberBits) - 1;
    const auto micros = static_cast<std::size_t>(now.time_since_epoch().count() % 1000);
    const std::size_t place = (micros << kNumberBits) | (number & kNumberMask);
    std::string id = make_uuid_v7(now, random);
    id.replace(15, 3, fmt::format("{:03x}", place >> kHalfBits));
    id.replace(19, 4, fmt::format("8{:03x}", place & kHalfMask));
    return id;
}

std::string_view error_class_of(std::string_view error) {
    const std::size_t end = error.find(": ");
    // "BROKER_5XX: no" has a code; "words only: no code" has none. The statements say the same in SQL.
    if (end == std::string_view::npos || error.find(' ') < end) return {};
    return error.substr(0, end);
}

Result<void> check_letter(const NewLetter& letter) {
    const Provenance& from = letter.provenance;
    const auto refuse = [&](const std::string& problem) {
        return permanent(codes::kLetterRefused, "record " + where(letter.record) + ": " + problem);
    };
    const std::pair<std::string_view, std::string_view> texts[] = {{"topic", letter.record.topic},
                                                                   {"original_topic", from.original_topic},
                                                                   {"error_message", from.error_message},
                                                                   {"error_class", text_or_empty(from.error_class)},
                                                                   {"stack_trace", text_or_empty(from.stack_trace)},
                                                                   {"producer", text_or_empty(from.producer)},
                                                                   {"source", letter.source}};
    for (const auto& [name, text] : texts) {
        if (!is_storable(text)) return refuse(std::string(name) + " must be UTF-8 without NUL");
    }
    if (!letter.payload) return {};
    if (const auto problem = json_problem(*letter.payload, JsonKind::any)) return refuse("payload is " + *problem);
    return {};
}

std::string letter_note(std::string_view text) {
    return shorten(one_line(storable(text)), kMaxStoredErrorBytes);
}

bool is_order(const Letter& letter) {
    return letter.lane_row && letter.lane_row->outbox == "orders";
}

std::string retry_refusal(const Letter& letter) {
    // The broker may have taken it, and a second order costs money.
    if (is_order(letter)) {
        return "an order is not sent again: it may have been taken; post a new one if it is still wanted";
    }
    if (letter.lane_row && letter.lane_row->row_id.empty()) return std::string(kRowReused);
    // A lane's letter goes back as its row, which is whole.
    if (!letter.lane_row && letter.truncated) {
        return "the record was too long to be kept: what is here is only its beginning";
    }
    return {};
}

// The order decides which reason a person reads: first what can never change. While a retry is under way, nobody knows
// whether it was the last one.
RetryVerdict retry_verdict(const Letter& letter, std::string_view refusal, bool under_way) {
    if (is_order(letter)) return RetryVerdict::refused;  // it is DEAD from the beginning, which would not say why
    if (letter.status == LetterStatus::resolved || letter.status == LetterStatus::dead) return RetryVerdict::finished;
    if (!refusal.empty()) return RetryVerdict::refused;
    if (under_way) return RetryVerdict::under_way;
    // An unfinished retry is resumed and does not count again, so it may be the last one.
    const bool may = letter.retry_count < letter.max_retries || letter.unfinished;
    return may ? RetryVerdict::begun : RetryVerdict::exhausted;
}

std::string retry_reason(RetryVerdict verdict, const Letter& letter, std::string_view refusal) {
    if (verdict == RetryVerdict::refused) return std::string(refusal);
    if (verdict == RetryVerdict::under_way) return "another retry of it is under way";
    if (verdict == RetryVerdict::finished) return "it is " + std::string(to_string(letter.status));
    if (verdict != RetryVerdict::exhausted) return {};
    return "it was retried " + std::to_string(letter.retry_count) + " times, which is as often as it may be";
}

// The same as end_retry in store/postgres/letters/sql/dead_letters.sql, where a batch is one statement.
RetryEffect retry_effect(const Letter& letter, RetryResult result) {
    RetryEffect effect{LetterStatus::retrying, letter.retry_count, letter.in_doubt, true, "retry_failed"};
    switch (result) {
        case RetryResult::published:
        case RetryResult::unpublished:
            effect.status = LetterStatus::resolved;
            effect.in_doubt = false;
            effect.action = result == RetryResult::published ? "published" : "resolved_unpublished";
            break;
        case RetryResult::failed:
            if (letter.retry_count >= letter.max_retries) effect.status = LetterStatus::dead;
            break;
        case RetryResult::in_doubt:
            effect.in_doubt = true;
            effect.action = "retry_in_doubt";
            break;
        case RetryResult::not_tried:
            // Not 0 where an earlier retry is in doubt: a letter that may have been published is never PENDING.
            effect.retry_count = std::max(letter.in_doubt ? 1 : 0, letter.retry_count - 1);
            effect.was_tried = false;
            if (effect.retry_count == 0) effect.status = LetterStatus::pending;
            break;
    }
    return effect;
}

Failure redrive_not_owned(std::string_view topic) {
    return permanent(codes::kNotOwner,
                     "the redrive of " + one_line(topic) + " has ended, or another process has taken it over");
}

Result<void> check_retry_request(const RetryRequest& request) {
    TRY(check_upkeep_name("owner", request.owner));
    TRY(check_upkeep_name("actor", request.actor));
    return check_upkeep_span("lease", request.lease);
}

Result<void> check_letter_query(const LetterQuery& query) {
    if (query.offset < 0) return bad_argument("offset must not be negative");
    if (query.limit < 1) return bad_argument("limit must be 1 or more");
    return {};
}

bool is_counted(const LetterQuery& query) {
    return !query.error_class && !query.from && !query.until && !query.text && !query.key;
}

void set_total(LetterPage& page, const LetterQuery& query, std::int64_t found) {
    page.total_is_minimum = !is_counted(query) && found > kMaxCounted;
    page.total = page.total_is_minimum ? kMaxCounted : found;
}

}  // namespace deliverd::store
