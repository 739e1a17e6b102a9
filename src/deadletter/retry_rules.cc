#include "deadletter/retry_rules.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "deadletter/ports.h"
#include "deadletter/provenance.h"
#include "store/letter_rules.h"

namespace deliverd::deadletter {
namespace {

/// Code first: it is what people search for.
std::string words_of(const Outcome& outcome) {
    std::string words = outcome.code;
    if (!words.empty() && !outcome.detail.empty()) words += ": ";
    words += outcome.detail;
    return shorten(words.empty() ? std::string(to_string(outcome.kind)) : one_line(words), kMaxDetailBytes);
}

store::RetryResult result_of(const Outcome& outcome) {
    switch (outcome.kind) {
        case OutcomeKind::delivered:
            return store::RetryResult::published;
        case OutcomeKind::retryable:
            // Only what a broker did with the record counts as a retry, not that there was no broker.
            return outcome.not_attempted ? store::RetryResult::not_tried : store::RetryResult::failed;
        case OutcomeKind::permanent:
            return store::RetryResult::failed;
        case OutcomeKind::ambiguous:
            break;
    }
    return store::RetryResult::in_doubt;
}

std::string state_of(const store::Letter& letter) {
    return "status=" + std::string(to_string(letter.status)) + ", retry_count=" + std::to_string(letter.retry_count) +
           "/" + std::to_string(letter.max_retries);
}

/// A letter at its limit and in doubt needs a person, who has to know where to look.
std::string why_finished(const store::Letter& letter) {
    std::string reason = state_of(letter);
    if (letter.status == store::LetterStatus::retrying && letter.in_doubt) {
        reason +=
            ": its last retry may have been published, but no broker confirmed it. Check whether it is in its original "
            "topic, "
            "then mark it as dead or delete it";
    }
    return reason;
}

}  // namespace

store::RetryEnd end_of(std::string id, const Outcome& outcome) {
    const store::RetryResult result = result_of(outcome);
    if (result != store::RetryResult::published) return {std::move(id), result, words_of(outcome)};
    return {std::move(id), result, shorten(one_line(outcome.receipt.value_or(outcome.detail)), kMaxDetailBytes)};
}

store::RetryEnd end_of_taken_over(store::RetryEnd end) {
    if (end.result != store::RetryResult::not_tried) return end;
    end.result = store::RetryResult::in_doubt;
    end.detail = shorten("an earlier retry did not end, and this one sent nothing: " + end.detail, kMaxDetailBytes);
    return end;
}

bool resolves(store::RetryResult result) {
    return result == store::RetryResult::published || result == store::RetryResult::unpublished;
}

bool is_as_after(const store::Letter& letter, store::RetryResult result) {
    return resolves(result) == (letter.status == store::LetterStatus::resolved);
}

std::string not_retryable_reason(const store::LetterDetail& letter, std::string_view pattern) {
    const store::Letter& row = letter.letter;
    const bool order = row.lane_row && row.lane_row->outbox == "orders";
    const bool finished = row.status == store::LetterStatus::resolved || row.status == store::LetterStatus::dead;
    // An unfinished retry is resumed, which does not count again.
    const bool exhausted = row.retry_count >= row.max_retries && !row.unfinished;
    // An order is DEAD from the beginning: that would not say why it is not sent.
    if (!order && (finished || exhausted)) return why_finished(row);
    return replay_refusal(letter, pattern);
}

std::string destination_refusal(std::string_view topic, std::span<const std::string> replay_topics) {
    const auto names_it = [topic](const std::string& pattern) { return matches_pattern(topic, pattern); };
    if (replay_topics.empty() || std::ranges::any_of(replay_topics, names_it)) return {};
    return "topic " + one_line(topic) + " is not in kafka.replay_topics: add it there if messages may be sent to it";
}

std::string not_killable_reason(const store::Letter& before) {
    const bool finished = before.status == store::LetterStatus::resolved || before.status == store::LetterStatus::dead;
    return finished ? state_of(before) : "";
}

std::string not_revivable_reason(const store::Letter& before) {
    if (store::is_order(before)) return replay_refusal({.letter = before, .record = {}}, {});
    return before.status == store::LetterStatus::dead ? "" : state_of(before);
}

RetryReport answer_to(const store::RetryClaim& claim) {
    RetryReport report{.answer = RetryAnswer::conflict, .message = {}};
    if (claim.letter) report.letter = claim.letter->letter;
    switch (claim.verdict) {
        case store::RetryVerdict::begun:  // and there is no letter to send
        case store::RetryVerdict::unknown:
            return {.answer = RetryAnswer::not_found, .message = "message not found: " + one_line(claim.id)};
        case store::RetryVerdict::finished:
        case store::RetryVerdict::exhausted:
            report.message = kNotRetryable;
            if (report.letter) report.message += why_finished(*report.letter);
            break;
        case store::RetryVerdict::under_way:
            report.message = "another retry of this message is under way";
            break;
        case store::RetryVerdict::refused:
            report.message = std::string(kNotRetryable) + claim.reason;
            break;
    }
    return report;
}

RetryReport answer_to(const store::RetryEnd& end, store::Letter letter) {
    RetryReport report{.answer = RetryAnswer::not_published, .message = {}};
    switch (end.result) {
        case store::RetryResult::published:
            report.answer = RetryAnswer::resolved;
            report.message = letter.lane_row       ? "back in its lane " + letter.lane_row->lane
                             : is_of_spool(letter) ? end.detail
                                                   : "published: " + end.detail;
            break;
        case store::RetryResult::unpublished:
            report.answer = RetryAnswer::resolved;
            report.message = "resolved, " + end.detail;
            break;
        case store::RetryResult::failed:
            if (letter.lane_row) {
                report.answer = RetryAnswer::conflict;
                report.message = "not put back into its lane: " + end.detail;
                break;
            }
            report.message = "not published: " + end.detail;
            report.message += letter.status == store::LetterStatus::dead ? "; that was its last retry, it is DEAD now"
                                                                         : "; it can be retried";
            break;
        case store::RetryResult::in_doubt:
            report.answer = RetryAnswer::in_doubt;
            report.message = "it may have been published, but no broker confirmed it: " + end.detail;
            if (letter.retry_count >= letter.max_retries) report.message += "; that was its last retry";
            break;
        case store::RetryResult::not_tried:
            report.message = "nothing was published: " + end.detail + "; it can be retried, and this one did not count";
            break;
    }
    report.letter = std::move(letter);
    return report;
}

RetryReport answer_unrecorded(const store::RetryEnd& end, store::Letter letter, std::string_view reason) {
    RetryReport report{.answer = RetryAnswer::in_doubt, .message = {}};
    const std::string why = std::string(reason);
    switch (end.result) {
        case store::RetryResult::published:
            report.message = "published (" + end.detail + "), but that could not be recorded: " + why +
                             ". It stays RETRYING; another retry would publish it a second time";
            break;
        case store::RetryResult::in_doubt:
            report.message = "it may have been published (" + end.detail + "), and that could not be recorded: " + why;
            break;
        case store::RetryResult::failed:
        case store::RetryResult::not_tried:
        case store::RetryResult::unpublished:
            report.answer = RetryAnswer::not_published;
            report.message = "nothing was published: " + end.detail + ". That could not be recorded: " + why +
                             "; it can be retried once this retry's lease has run out";
            break;
    }
    report.letter = std::move(letter);
    return report;
}

// A refusal, too, shows that somebody answers.
bool nothing_arrived(std::span<const Outcome> outcomes) {
    return !outcomes.empty() && std::ranges::all_of(outcomes, [](const Outcome& outcome) {
        return outcome.not_attempted || outcome.kind == OutcomeKind::ambiguous;
    });
}

std::string how_it_ended(const RedriveReport& report) {
    std::string text = report.problem;
    if (report.redrive.in_doubt > 0) {
        text += "; " + std::to_string(report.redrive.in_doubt) +
                " may have been published, but no broker confirmed them. They are RETRYING with in_doubt; another "
                "retry could publish them a second time";
    }
    if (report.redrive.failed > 0) text += "; " + std::to_string(report.redrive.failed) + " failed";
    if (report.redrive.finished) text += "; what is left can be retried";
    return text;
}

}  // namespace deliverd::deadletter
