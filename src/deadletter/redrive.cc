#include "deadletter/redrive.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"
#include "deadletter/retry_rules.h"
#include "deliverd/error_codes.h"

namespace deliverd::deadletter {
namespace {

/// The large parts of a letter in memory.
std::size_t bytes_of(const store::RetryClaim& claim) {
    if (!claim.letter) return 0;
    const auto& payload = claim.letter->letter.payload;
    return content_bytes(claim.letter->record) + (payload ? payload->size() : 0);
}

/// Says "confirmed none" if some were sent: these may have arrived, so that a person must not read "got none".
std::string why_away(std::span<const Outcome> outcomes) {
    const bool some_sent = std::ranges::any_of(outcomes, [](const Outcome& outcome) { return !outcome.not_attempted; });
    return (some_sent ? "the broker confirmed none of " : "the broker got none of ") + std::to_string(outcomes.size()) +
           " messages: " + end_of({}, outcomes.front()).detail;
}

/// Whether the topic is the reason, not the record.
bool is_turned_away(const Outcome& outcome) {
    return outcome.kind == OutcomeKind::retryable &&
           (outcome.not_attempted || std::ranges::find(kTopicCodes, outcome.code) != kTopicCodes.end());
}

}  // namespace

RedriveRun::Load& RedriveRun::Load::operator+=(const Load& other) {
    pages += other.pages;
    bytes += other.bytes;
    return *this;
}

RedriveRun::Load& RedriveRun::Load::operator-=(const Load& other) {
    ASSERT(pages >= other.pages && bytes >= other.bytes);
    pages -= other.pages;
    bytes -= other.bytes;
    return *this;
}

RedriveRun::RedriveRun(const RetryServices& services, RedriveRequest request, store::Redrive opened)
    : services_(services),
      request_(std::move(request)),
      opened_(std::move(opened)),
      sender_(
          services_, request_.owner, request_.actor,
          {.refusal = request_.refusal, .review = [this](auto records, auto outcomes) { review(records, outcomes); }},
          request_.topic) {}

RedriveReport RedriveRun::run() {
    std::thread publisher;
    std::thread recorder;
    try {
        publisher = std::thread([this] { repeat(&RedriveRun::publish_step); });
        recorder = std::thread([this] { repeat(&RedriveRun::record_step); });
    } catch (const std::system_error& failure) {
        // What is begun needs both threads to come to its end: without them nothing is begun.
        end_early(std::string("no thread could be started: ") + failure.what(), true);
    }
    repeat(&RedriveRun::read_step);
    if (publisher.joinable()) publisher.join();
    if (recorder.joinable()) recorder.join();
    return finish();
}

void RedriveRun::repeat(Step (RedriveRun::*step)()) {
    for (;;) {
        std::uint64_t seen = 0;
        {
            const MutexLock lock(mutex_);
            seen = changes_;
        }
        if ((this->*step)() == Step::ended) return;
        // A step that did something has called notify() itself, so that this waits only if there was nothing to do.
        const MutexLock lock(mutex_);
        changed_.wait(mutex_, [&]() REQUIRES(mutex_) { return changes_ != seen; });
    }
}

void RedriveRun::notify() {
    ++changes_;
    changed_.notify_all();
}

// --- reading -------------------------------------------------------------------------------------------------------

RedriveRun::Step RedriveRun::read_step() {
    const bool stopping = services_.gate.closed();
    std::optional<Room> next;
    {
        const MutexLock lock(mutex_);
        const bool ends = stopping || ends_early_;
        if (!ends) next = room();
        if (!ends && !next) return Step::waiting;
    }
    if (next && read_page(*next)) return Step::done;
    const MutexLock lock(mutex_);
    all_read_ = true;
    notify();
    return Step::ended;
}

/// Bytes are limited as well as letters, because a letter may be as long as Kafka's longest record.
std::optional<RedriveRun::Room> RedriveRun::room() const {
    const ManagerOptions& options = services_.options;
    const auto begun = static_cast<std::int32_t>(in_flight_.pages);
    const std::int32_t pages = std::min(options.pages_in_flight - begun, options.pages_at_once);
    if (pages < 1 || in_flight_.bytes >= kMaxRedriveBytes) return std::nullopt;
    return Room{.letters = options.page * pages,
                .bytes = static_cast<std::int64_t>(kMaxRedriveBytes - in_flight_.bytes),
                .skipped_topics = skipped_topics_};
}

Result<RetryBatch> RedriveRun::begin_page(const Room& room) {
    const store::RetryRequest request{request_.owner, request_.actor, services_.options.retry_lease};
    const store::RedrivePage page{.letters = room.letters, .bytes = room.bytes, .left_out_topics = room.skipped_topics};
    for (int attempt = 1;; ++attempt) {
        const Instant begun_at = services_.options.clock->now();
        auto claims = services_.letters.next_of_redrive(request_.topic, request, page);
        if (claims) return RetryBatch{std::move(*claims), begun_at};
        // Not after an answer that was lost: that page may be begun, and its letters are not known here.
        const bool again = claims.error().error_class == ErrorClass::retryable && attempt < kStoreAttempts;
        if (!again || !services_.gate.wait(services_.options.store_retry_wait * (1 << (attempt - 1)))) {
            return Failure(std::move(claims.error()));
        }
    }
}

bool RedriveRun::read_page(const Room& room) {
    auto page = begin_page(room);
    const MutexLock lock(mutex_);
    if (!page) {
        std::string problem = "the next messages could not be read: " + page.error().message;
        if (page.error().error_class == ErrorClass::ambiguous) {
            problem += " (some may stay RETRYING until their lease ends)";
        }
        lost_ = page.error().code == codes::kNotOwner;
        if (problem_.empty()) problem_ = std::move(problem);
        return false;
    }
    complete_ = page->claims.empty();
    if (complete_) return false;
    const auto each = static_cast<std::size_t>(services_.options.page);
    Load load{.pages = (page->claims.size() + each - 1) / each};
    for (const store::RetryClaim& claim : page->claims) {
        load.bytes += bytes_of(claim);
        counts_.begun += claim.verdict == store::RetryVerdict::begun && claim.letter ? 1 : 0;
    }
    in_flight_ += load;
    begun_load_ += load;
    begun_.push_back(std::move(*page));
    notify();
    return true;
}

// --- publishing ----------------------------------------------------------------------------------------------------

RedriveRun::Step RedriveRun::publish_step() {
    std::vector<RetryBatch> pages;
    Load load;
    std::string_view why_not;
    {
        const MutexLock lock(mutex_);
        if (begun_.empty()) {
            if (!all_read_) return Step::waiting;
            all_published_ = true;
            notify();
            return Step::ended;
        }
        pages = std::exchange(begun_, {});
        load = std::exchange(begun_load_, {});
        if (publish_none_) why_not = "the redrive ended before it";
    }
    SentBatch sent = sender_.send(std::move(pages), why_not);
    failpoint("redrive.after_publish");
    // These end the reading only: what was begun meanwhile may have another destination, or be in time.
    if (sent.too_late) {
        end_early("publishing was too slow for dead_letters.retry_lease_seconds: the rest was not tried", false);
    }
    if (!sent.lane_problem.empty()) {
        end_early("messages could not be put back into their lane: " + sent.lane_problem, false);
    }
    if (!sent.spool_problem.empty()) {
        end_early("entries could not be put back into their spool: " + sent.spool_problem, false);
    }
    count(sent.recorded);
    const MutexLock lock(mutex_);
    std::ranges::move(sent.ends, std::back_inserter(ended_));
    ended_load_ += load;
    notify();
    return Step::done;
}

void RedriveRun::review(std::span<const Record> records, std::span<Outcome> outcomes) {
    if (nothing_arrived(outcomes)) return end_early(why_away(outcomes), true);
    skip_topics(records, outcomes);
}

/// A topic that turned away all its records in the batch is skipped from now on. Their retries do not count.
void RedriveRun::skip_topics(std::span<const Record> records, std::span<Outcome> outcomes) {
    std::set<std::string_view> taking;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (!is_turned_away(outcomes[i])) taking.insert(records[i].topic);
    }
    {
        const MutexLock lock(mutex_);
        for (std::size_t i = 0; i < records.size(); ++i) {
            const std::string& topic = records[i].topic;
            if (taking.contains(topic)) {
                cut_off_ = cut_off_ || outcomes[i].not_attempted;
                continue;
            }
            outcomes[i].not_attempted = true;
            if (std::ranges::find(skipped_topics_, topic) != skipped_topics_.end()) continue;
            if (skipped_topics_.empty()) {
                why_skipped_ = "messages for topic " + topic + " were skipped: " + end_of({}, outcomes[i]).detail;
            }
            skipped_topics_.push_back(topic);
        }
        if (skipped_topics_.size() <= kMaxSkippedTopics) return;
        gives_up_ = true;
    }
    end_early("more than " + std::to_string(kMaxSkippedTopics) + " topics accepted no message", false);
}

// --- recording -----------------------------------------------------------------------------------------------------

RedriveRun::Step RedriveRun::record_step() {
    std::vector<store::RetryEnd> ends;
    Load load;
    {
        const MutexLock lock(mutex_);
        if (ended_load_.pages == 0) return all_published_ ? Step::ended : Step::waiting;
        ends = std::exchange(ended_, {});
        load = std::exchange(ended_load_, {});
    }
    if (!ends.empty()) record(ends);
    const MutexLock lock(mutex_);
    in_flight_ -= load;
    notify();
    return Step::done;
}

void RedriveRun::record(const std::vector<store::RetryEnd>& ends) {
    const auto recorded = sender_.record(ends);
    count(ends);
    // Nothing more is published then: each further message would be another one that may go out twice.
    if (!recorded) {
        const auto out = std::ranges::count_if(ends, [](const store::RetryEnd& end) {
            return end.result == store::RetryResult::published || end.result == store::RetryResult::in_doubt;
        });
        services_.log.error("dead letters: the end of a page could not be recorded",
                            {{"topic", request_.topic},
                             {"messages", ends.size()},
                             {"published", out},
                             {"error", recorded.error().message}});
        return end_early(std::to_string(out) +
                             " messages were published, but that could not be recorded: " + recorded.error().message +
                             ". They stay RETRYING; another retry would publish them a second time",
                         true);
    }
    // The others were deleted meanwhile, or taken over after the lease. Which ones is not known, so that as many of the
    // published ones count as in doubt.
    const auto missing = static_cast<std::int64_t>(ends.size()) - *recorded;
    if (missing <= 0) return;
    services_.log.error("dead letters: this redrive no longer owned some messages of a page when they had been sent",
                        {{"topic", request_.topic}, {"messages", missing}});
    {
        const MutexLock lock(mutex_);
        const auto out = std::ranges::count(ends, store::RetryResult::published, &store::RetryEnd::result);
        counts_.published -= std::min<std::int64_t>(missing, out);
        counts_.in_doubt += std::min<std::int64_t>(missing, out);
    }
    if (*recorded == 0) end_early("its lease had ended, and another process may retry the same messages", true);
}

// --- the end -------------------------------------------------------------------------------------------------------

void RedriveRun::end_early(std::string problem, bool publish_none) {
    const MutexLock lock(mutex_);
    ends_early_ = true;
    publish_none_ = publish_none_ || publish_none;
    if (problem_.empty()) problem_ = std::move(problem);
}

void RedriveRun::count(const std::vector<store::RetryEnd>& ends) {
    const MutexLock lock(mutex_);
    for (const store::RetryEnd& end : ends) {
        switch (end.result) {
            case store::RetryResult::published:
            case store::RetryResult::unpublished:
                ++counts_.published;
                break;
            case store::RetryResult::failed:
                ++counts_.failed;
                break;
            case store::RetryResult::in_doubt:
                ++counts_.in_doubt;
                break;
            case store::RetryResult::not_tried:
                ++counts_.not_tried;
                if (not_tried_reason_.empty()) not_tried_reason_ = end.detail;
                break;
        }
    }
}

RedriveReport RedriveRun::finish() {
    RedriveReport report{.redrive = opened_};
    bool stopped = false;
    bool later = false;
    bool lost = false;
    std::string skipped;
    {
        const MutexLock lock(mutex_);
        // A letter that was begun and has no end would stay RETRYING without anybody knowing.
        ASSERT(in_flight_.pages == 0 && in_flight_.bytes == 0);
        ASSERT(counts_.begun == counts_.published + counts_.failed + counts_.in_doubt + counts_.not_tried);
        ASSERT(counts_.published >= 0);
        report.problem = problem_;
        report.not_tried = counts_.not_tried;
        report.not_tried_reason = not_tried_reason_;
        report.redrive.published += counts_.published;
        report.redrive.failed += counts_.failed;
        report.redrive.in_doubt += counts_.in_doubt;
        // The last page may be read before an earlier one fails. If a person waits, the answer says what the broker did
        // not get, and the redrive is closed: the next one starts over and includes what was given back. A stopped or
        // resumed redrive stays open instead.
        const bool cut_off = cut_off_ && request_.resumed;
        if (cut_off && report.problem.empty()) report.problem = "the broker got only a part: " + not_tried_reason_;
        const bool complete = complete_ && !ends_early_ && !cut_off;
        const bool interrupted = !complete && (report.problem.empty() || services_.gate.closed());
        if (interrupted && request_.ends_when_stopped) report.problem = "it was stopped";
        stopped = interrupted && !request_.ends_when_stopped;
        later = !stopped && !complete && request_.resumed && !gives_up_ && !lost_;
        lost = lost_;
        skipped = why_skipped_;
        if (skipped_topics_.size() > 1) {
            skipped += " (and other topics: " + std::to_string(skipped_topics_.size() - 1) + ")";
        }
    }
    if (stopped) report.problem = "the program is stopping; the rest follows when it runs again";
    if (later) report.problem += "; it resumes by itself";
    if (stopped || later) {
        // So that the next process need not wait for the lease. If this fails, it waits.
        static_cast<void>(services_.letters.release_redrive(request_.topic, request_.owner));
    } else if (!lost) {
        close(report);
    }
    if (!skipped.empty()) report.problem += (report.problem.empty() ? "" : "; ") + skipped;
    services_.log.write(
        later ? LogLevel::warn : LogLevel::info,
        later ? "dead letters: a resumed redrive cannot continue now" : "dead letters: a redrive has ended",
        {{"topic", request_.topic},
         {"published", report.redrive.published},
         {"failed", report.redrive.failed},
         {"in_doubt", report.redrive.in_doubt},
         {"finished", report.redrive.finished},
         {"problem", report.problem}});
    return report;
}

void RedriveRun::close(RedriveReport& report) {
    StoreAttempts attempts(services_.options.store_retry_wait, services_.gate);
    auto closed = attempts.run([&] { return services_.letters.close_redrive(request_.topic, request_.owner); });
    if (closed) {
        report.redrive = std::move(*closed);
        return;
    }
    if (report.problem.empty()) {
        report.problem = "all was tried, but that could not be recorded: " + closed.error().message;
    }
    report.problem += "; it was not closed, and resumes by itself where `serve` runs";
}

}  // namespace deliverd::deadletter
