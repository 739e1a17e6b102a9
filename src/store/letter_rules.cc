#include "store/letter_rules.h"

#include <algorithm>
#include <utility>

#include "base/json_check.h"
#include "base/text.h"
#include "base/try.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store {
namespace {

std::string where(const Record& record) {
    return one_line(record.topic) + "[" + std::to_string(record.partition) + "]@" + std::to_string(record.offset);
}

bool is_storable(std::string_view text) {
    return text.find('\0') == std::string_view::npos && !find_invalid_utf8(text);
}

}  // namespace

std::optional<LetterStatus> letter_status(std::string_view text) {
    for (const LetterStatus status :
         {LetterStatus::pending, LetterStatus::retrying, LetterStatus::resolved, LetterStatus::dead}) {
        if (text == to_string(status)) return status;
    }
    return std::nullopt;
}

bool is_letter_source(std::string_view text) {
    const auto names_one = [text](std::string_view prefix) {
        return text.starts_with(prefix) && text.size() > prefix.size();
    };
    return text == "kafka" || names_one("lane:") || names_one("spool:");
}

std::string_view error_class_of(std::string_view error) {
    const std::size_t end = error.find(": ");
    if (end == std::string_view::npos || error.find(' ') < end) return {};
    return error.substr(0, end);
}

Result<void> check_letter(const NewLetter& letter) {
    const Provenance& from = letter.provenance;
    const std::optional<std::string> topic = letter.record.topic;
    const std::optional<std::string> original_topic = from.original_topic;
    const std::optional<std::string> error_message = from.error_message;
    const std::optional<std::string> source = letter.source;
    const std::pair<std::string_view, const std::optional<std::string>*> texts[] = {{"topic", &topic},
                                                                                    {"original_topic", &original_topic},
                                                                                    {"error_message", &error_message},
                                                                                    {"error_class", &from.error_class},
                                                                                    {"stack_trace", &from.stack_trace},
                                                                                    {"producer", &from.producer},
                                                                                    {"source", &source}};
    for (const auto& [name, text] : texts) {
        if (*text && !is_storable(**text)) {
            return permanent(std::string(kLetterRefused), "record " + where(letter.record) + ": " + std::string(name) +
                                                              " must be UTF-8 without NUL");
        }
    }
    if (letter.payload) {
        if (const auto problem = json_problem(*letter.payload, JsonKind::any)) {
            return permanent(std::string(kLetterRefused),
                             "record " + where(letter.record) + ": payload is " + *problem);
        }
    }
    return {};
}

bool is_order(const Letter& letter) {
    return letter.lane_row && letter.lane_row->outbox == "orders";
}

std::string retry_refusal(const Letter& letter) {
    if (is_order(letter)) {
        return "an order is not sent again: it may have been taken; post a new one if it is still wanted";
    }
    if (letter.lane_row && letter.lane_row->row_id.empty()) return std::string(kRowReused);
    if (!letter.lane_row && letter.truncated) {
        return "the record was too long to be kept: what is here is only its beginning";
    }
    return {};
}

RetryVerdict retry_verdict(const Letter& letter, std::string_view refusal, bool under_way) {
    if (is_order(letter)) return RetryVerdict::refused;  // it is DEAD from the beginning, which would not say why
    if (letter.status == LetterStatus::resolved || letter.status == LetterStatus::dead) return RetryVerdict::finished;
    if (!refusal.empty()) return RetryVerdict::refused;
    if (under_way) return RetryVerdict::under_way;
    const bool may = letter.retry_count < letter.max_retries || letter.unfinished;
    return may ? RetryVerdict::begun : RetryVerdict::exhausted;
}

std::string retry_reason(RetryVerdict verdict, const Letter& letter, std::string_view refusal) {
    switch (verdict) {
        case RetryVerdict::finished:
            return "it is " + std::string(to_string(letter.status));
        case RetryVerdict::exhausted:
            return "it was retried " + std::to_string(letter.retry_count) + " times, which is as often as it may be";
        case RetryVerdict::under_way:
            return "another retry of it is under way";
        case RetryVerdict::refused:
            return std::string(refusal);
        case RetryVerdict::begun:
        case RetryVerdict::unknown:
            break;
    }
    return {};
}

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
            effect.retry_count = std::max(letter.in_doubt ? 1 : 0, letter.retry_count - 1);
            effect.was_tried = false;
            if (effect.retry_count == 0) effect.status = LetterStatus::pending;
            break;
    }
    return effect;
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

}  // namespace deliverd::store
