#include "deadletter/batch_sender.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/assert.h"
#include "deadletter/provenance.h"
#include "deadletter/retry_rules.h"

namespace deliverd::deadletter {

/// The letters of some batches, sorted by where they go.
struct BatchSender::Sorted {
    std::vector<std::string> lane_ids;
    std::vector<store::LetterDetail> spooled;
    std::vector<std::string> record_ids;
    std::vector<Record> records;       // of record_ids
    std::set<std::string> taken_over;  // their earlier retry did not end
    std::size_t letters = 0;

    [[nodiscard]] store::RetryEnd end(const std::string& id, store::RetryResult result, std::string detail) const {
        store::RetryEnd end{id, result, std::move(detail)};
        return taken_over.contains(id) ? end_of_taken_over(std::move(end)) : end;
    }
    [[nodiscard]] store::RetryEnd end(const std::string& id, const Outcome& outcome) const {
        store::RetryEnd end = end_of(id, outcome);
        return this->end(id, end.result, std::move(end.detail));
    }
};

BatchSender::BatchSender(const RetryServices& services, std::string owner, std::string actor, SendRules rules,
                         std::optional<std::string> redrive_topic)
    : services_(services),
      owner_(std::move(owner)),
      actor_(std::move(actor)),
      rules_(std::move(rules)),
      redrive_topic_(std::move(redrive_topic)) {}

SentBatch BatchSender::send(std::vector<RetryBatch> batches, std::string_view why_not) {
    SentBatch sent;
    Sorted sorted = sort(std::move(batches), why_not, sent);
    if (!sorted.lane_ids.empty()) return_to_lanes(sorted, sent);
    if (!sorted.spooled.empty()) put_into_spools(sorted, sent);
    if (!sorted.records.empty()) publish(sorted, sent);
    ASSERT(sent.ends.size() + sent.recorded.size() == sorted.letters);
    return sent;
}

BatchSender::Sorted BatchSender::sort(std::vector<RetryBatch> batches, std::string_view why_not, SentBatch& sent) {
    using store::RetryResult;
    Sorted sorted;
    for (RetryBatch& batch : batches) {
        const bool too_late = why_not.empty() && is_too_late(batch);
        const std::string_view not_now = too_late ? kTooLate : why_not;
        for (store::RetryClaim& claim : batch.claims) {
            if (claim.verdict != store::RetryVerdict::begun || !claim.letter) continue;
            ++sorted.letters;
            if (claim.taken_over) sorted.taken_over.insert(claim.id);
            store::LetterDetail letter = std::move(*claim.letter);
            // A lane's row is checked by the store, in the transaction that returns it.
            if (letter.letter.lane_row) {
                sorted.lane_ids.push_back(claim.id);
            } else if (std::string why = rules_.refusal(letter); !why.empty()) {
                sent.ends.push_back(sorted.end(claim.id, RetryResult::not_tried, std::move(why)));
            } else if (is_of_spool(letter.letter)) {
                sorted.spooled.push_back(std::move(letter));
            } else if (services_.options.stand_alone()) {
                sent.ends.push_back(sorted.end(claim.id, RetryResult::unpublished, std::string(kStandAlone)));
            } else if (!not_now.empty()) {
                sent.too_late = too_late;
                sent.ends.push_back(sorted.end(claim.id, RetryResult::not_tried, std::string(not_now)));
            } else {
                sorted.record_ids.push_back(claim.id);
                sorted.records.push_back(replay_of(std::move(letter), services_.new_id()));
            }
        }
    }
    return sorted;
}

bool BatchSender::is_too_late(const RetryBatch& batch) const {
    const ManagerOptions& options = services_.options;
    return options.clock->now() - batch.begun_at + options.publish_at_most >= options.retry_lease;
}

void BatchSender::return_to_lanes(const Sorted& sorted, SentBatch& sent) {
    using store::RetryResult;
    const auto problems = services_.letters.return_to_lane(owner_, actor_, sorted.lane_ids);
    if (problems) {
        ASSERT(problems->size() == sorted.lane_ids.size());
        for (std::size_t i = 0; i < problems->size(); ++i) {
            const std::string& problem = problems->at(i);
            const RetryResult result = problem.empty() ? RetryResult::published : RetryResult::failed;
            sent.recorded.push_back({sorted.lane_ids[i], result, problem});
        }
        return;
    }
    std::vector<store::RetryEnd> kept;
    for (const std::string& id : sorted.lane_ids) {
        kept.push_back(sorted.end(id, RetryResult::not_tried, "the store failed: " + problems.error().message));
    }
    if (problems.error().error_class == ErrorClass::ambiguous) {
        // Rows and letters change in one transaction, so that any of the letters shows whether it was done. If that
        // transaction still runs, ending the retries waits for it.
        const auto ended = record(kept);
        const auto one = services_.letters.find(kept.front().id);
        if (ended && *ended == 0 && one && *one && (*one)->letter.status == store::LetterStatus::resolved) {
            for (const std::string& id : sorted.lane_ids) sent.recorded.push_back({id, RetryResult::published});
            return;
        }
        if (ended && *ended > 0) std::ranges::move(std::exchange(kept, {}), std::back_inserter(sent.recorded));
    }
    sent.lane_problem = problems.error().message;
    std::ranges::move(kept, std::back_inserter(sent.ends));
}

void BatchSender::put_into_spools(const Sorted& sorted, SentBatch& sent) {
    ASSERT(services_.spools != nullptr);
    std::vector<Outcome> outcomes = services_.spools->put_back(sorted.spooled);
    outcomes.resize(sorted.spooled.size(), {.kind = OutcomeKind::ambiguous, .code = "NO_OUTCOME"});
    if (nothing_arrived(outcomes)) sent.spool_problem = end_of({}, outcomes.front()).detail;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        const bool forbidden = outcomes[i].kind == OutcomeKind::permanent;
        // No retry is counted: the entry's state may change, and the letter can go back then.
        if (forbidden || outcomes[i].kind == OutcomeKind::retryable) {
            outcomes[i].kind = OutcomeKind::retryable;
            outcomes[i].not_attempted = true;
        }
        sent.spool_forbids = sent.spool_forbids || forbidden;
        sent.ends.push_back(sorted.end(sorted.spooled[i].letter.id, outcomes[i]));
    }
}

void BatchSender::publish(Sorted& sorted, SentBatch& sent) {
    std::vector<Outcome> outcomes;
    if (services_.replayer != nullptr) {
        outcomes = services_.replayer->publish(sorted.records);
        outcomes.resize(sorted.records.size(), {.kind = OutcomeKind::ambiguous, .code = "NO_OUTCOME"});
    } else {
        outcomes.resize(sorted.records.size(), {.kind = OutcomeKind::retryable,
                                                .detail = "this process has no connection to Kafka",
                                                .not_attempted = true});
    }
    if (rules_.review) rules_.review(sorted.records, outcomes);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        sent.ends.push_back(sorted.end(sorted.record_ids[i], outcomes[i]));
    }
}

Result<std::int64_t> BatchSender::record(std::span<const store::RetryEnd> ends) {
    ASSERT(!ends.empty());
    StoreAttempts attempts(services_.options.store_retry_wait, services_.gate);
    auto recorded = attempts.run([&] {
        return redrive_topic_ ? services_.letters.end_of_redrive_page(*redrive_topic_, owner_, actor_, ends)
                              : services_.letters.end_retry(owner_, actor_, ends);
    });
    // After a lost answer, a repeat finds nothing to do, or fails itself; the letter then shows whether the first
    // attempt was recorded. Only an end that resolves shows it: after another one a letter looks as it did before.
    const bool may_be_recorded = attempts.was_ambiguous() && (!recorded || *recorded == 0);
    const bool shows = recorded || std::ranges::any_of(ends, [](const auto& end) { return resolves(end.result); });
    if (may_be_recorded && shows && are_recorded(ends)) return static_cast<std::int64_t>(ends.size());
    return recorded;
}

/// They are in one transaction, so that one letter shows it for all. One that the end resolves shows it best: other
/// ends may leave a letter as it was.
bool BatchSender::are_recorded(std::span<const store::RetryEnd> ends) {
    const auto resolved = std::ranges::find_if(ends, [](const store::RetryEnd& end) { return resolves(end.result); });
    const store::RetryEnd& end = resolved != ends.end() ? *resolved : ends.front();
    const auto letter = services_.letters.find(end.id);
    return letter && *letter && is_as_after((*letter)->letter, end.result);
}

}  // namespace deliverd::deadletter
