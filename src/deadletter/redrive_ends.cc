// How the pages of a redrive end, and how it ends itself.
#include <algorithm>
#include <utility>

#include "deadletter/redrive.h"
#include "deadletter/retry_rules.h"
#include "deadletter/store_attempts.h"

namespace deliverd::deadletter {

// --- recording -----------------------------------------------------------------------------------------------------

void RedriveRun::record_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return ended_load_.pages > 0 || all_published_; });
        if (ended_load_.pages == 0) break;
        const std::vector<store::RetryEnd> ends = std::exchange(ended_, {});
        const Load load = std::exchange(ended_load_, {});
        lock.unlock();
        if (!ends.empty()) record(ends);
        lock.lock();
        in_flight_.pages -= load.pages;
        in_flight_.bytes -= load.bytes;
        changed_.notify_all();
    }
}

void RedriveRun::record(const std::vector<store::RetryEnd>& ends) {
    StoreAttempts attempts(parts_.options.store_retry_wait, parts_.gate);
    const auto recorded =
        attempts.run([&] { return parts_.letters.end_of_redrive_page(topic_, owner_, actor_, ends); });
    for (const store::RetryEnd& end : ends) count(end);
    // A repeat that found nothing to do, after an answer that was lost: the first one did it.
    if (recorded && *recorded == 0 && attempts.was_ambiguous() && stand_so(ends)) return;
    if (recorded) return check_recorded(*recorded, ends);
    const auto out = std::ranges::count_if(ends, [](const store::RetryEnd& end) {
        return end.result == store::RetryResult::published || end.result == store::RetryResult::in_doubt;
    });
    parts_.log.error(
        "dead letters: the end of a page could not be recorded",
        {{"topic", topic_}, {"messages", ends.size()}, {"published", out}, {"error", recorded.error().message}});
    end_early(std::to_string(out) + " messages were published, but that could not be recorded: " +
                  recorded.error().message + ". They stay RETRYING; another retry would publish them a second time",
              true);
}

/// Whether the ends are recorded, all of them or none: one letter tells, best one that is RESOLVED by it.
bool RedriveRun::stand_so(const std::vector<store::RetryEnd>& ends) {
    const auto told = std::ranges::find_if(ends, [](const store::RetryEnd& end) { return resolves(end.result); });
    const store::RetryEnd& end = told != ends.end() ? *told : ends.front();
    const auto letter = parts_.letters.find(end.id);
    return letter && *letter && stands_so((*letter)->letter, end.result);
}

/// Those that were no longer this redrive's when they ended: deleted meanwhile, or taken over after the lease.
void RedriveRun::check_recorded(std::int64_t recorded, const std::vector<store::RetryEnd>& ends) {
    const auto missing = static_cast<std::int64_t>(ends.size()) - recorded;
    if (missing <= 0) return;
    parts_.log.error("dead letters: messages of a page were no longer this redrive's when they had been sent",
                     {{"topic", topic_}, {"messages", missing}});
    const auto out = std::ranges::count(ends, store::RetryResult::published, &store::RetryEnd::result);
    count(store::RetryResult::published, -std::min<std::int64_t>(missing, out));
    count(store::RetryResult::in_doubt, std::min<std::int64_t>(missing, out));
    if (recorded == 0) end_early("its lease had run out, and somebody else may be at the same messages", true);
}

// --- the end -------------------------------------------------------------------------------------------------------

void RedriveRun::end_early(std::string problem, bool publish_none) {
    const std::lock_guard lock(mutex_);
    ends_early_ = true;
    publish_none_ = publish_none_ || publish_none;
    if (problem_.empty()) problem_ = std::move(problem);
    changed_.notify_all();
}

void RedriveRun::count(store::RetryResult result, std::int64_t letters) {
    const std::lock_guard lock(mutex_);
    switch (result) {
        case store::RetryResult::published:
        case store::RetryResult::unpublished:
            counts_.published += letters;
            break;
        case store::RetryResult::failed:
            counts_.failed += letters;
            break;
        case store::RetryResult::in_doubt:
            counts_.in_doubt += letters;
            break;
        case store::RetryResult::not_tried:
            counts_.not_tried += letters;
            break;
    }
}

void RedriveRun::count(const store::RetryEnd& end) {
    count(end.result, 1);
    const std::lock_guard lock(mutex_);
    if (end.result == store::RetryResult::not_tried && not_tried_reason_.empty()) not_tried_reason_ = end.detail;
}

RedriveReport RedriveRun::finish(store::Redrive opened) {
    RedriveReport report{.redrive = std::move(opened),
                         .problem = std::move(problem_),
                         .not_tried = counts_.not_tried,
                         .not_tried_reason = std::move(not_tried_reason_)};
    report.redrive.published += counts_.published;
    report.redrive.failed += counts_.failed;
    report.redrive.in_doubt += counts_.in_doubt;
    // One that was stopped is resumed, and one that was resumed as often as it takes. One that a person waits for and
    // that had to end for another reason is closed, so that the next begins at the beginning, with what was given back.
    // The last page may be read before an earlier one fails. A redrive that a person waits for reports what the broker
    // did not get; a resumed one stays open for it.
    const bool cut_off = cut_off_ && parts_.resumed;
    if (cut_off && report.problem.empty()) report.problem = "the broker got only a part: " + report.not_tried_reason;
    const bool complete = complete_ && !ends_early_ && !cut_off;
    const bool interrupted = !complete && (report.problem.empty() || parts_.gate.closed());
    if (interrupted && parts_.ends_when_stopped) report.problem = "it was stopped";
    const bool stopped = interrupted && !parts_.ends_when_stopped;
    const bool later = !stopped && !complete && parts_.resumed && !gives_up_ && !lost_;
    if (stopped) report.problem = "the program is about to end; the rest follows when it runs again";
    if (later) report.problem += "; it goes on by itself";
    if (stopped || later) {
        static_cast<void>(parts_.letters.release_redrive(topic_, owner_));  // else the next one waits for the lease
    }
    if (!stopped && !later && !lost_) {
        StoreAttempts attempts(parts_.options.store_retry_wait, parts_.gate);
        auto closed = attempts.run([&] { return parts_.letters.close_redrive(topic_, owner_); });
        if (closed) {
            report.redrive = std::move(*closed);
        } else {
            if (report.problem.empty())
                report.problem = "all was tried, but that could not be recorded: " + closed.error().message;
            report.problem += "; it was not closed, and goes on by itself where `serve` runs";
        }
    }
    if (!passed_by_.empty()) report.problem += (report.problem.empty() ? "" : "; ") + why_passed_by_;
    if (passed_by_.size() > 1)
        report.problem += " (and so for other topics: " + std::to_string(passed_by_.size() - 1) + ")";
    parts_.log.write(
        later ? LogLevel::warn : LogLevel::info,
        later ? "dead letters: a redrive that was resumed cannot go on now" : "dead letters: a redrive has ended",
        {{"topic", topic_},
         {"published", report.redrive.published},
         {"failed", report.redrive.failed},
         {"in_doubt", report.redrive.in_doubt},
         {"finished", report.redrive.finished},
         {"problem", report.problem}});
    return report;
}

}  // namespace deliverd::deadletter
