#include "deadletter/redrive.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/failpoint.h"
#include "deadletter/provenance.h"
#include "deadletter/retry_rules.h"
#include "deadletter/store_attempts.h"

namespace deliverd::deadletter {
namespace {

std::size_t bytes_of(const store::RetryClaim& claim) {
    if (!claim.letter) return 0;
    const auto& payload = claim.letter->letter.payload;
    return content_bytes(claim.letter->record) + (payload ? payload->size() : 0);
}

std::string why_away(std::span<const Outcome> outcomes) {
    const bool some_sent = std::ranges::any_of(outcomes, [](const Outcome& outcome) { return !outcome.not_attempted; });
    return (some_sent ? "the broker confirmed none of " : "the broker got none of ") + std::to_string(outcomes.size()) +
           " messages: " + end_of({}, outcomes.front()).detail;
}

/// Because of its topic, whatever the record is.
bool is_turned_away(const Outcome& outcome) {
    return outcome.kind == OutcomeKind::retryable &&
           (outcome.not_attempted || std::ranges::find(kTopicCodes, outcome.code) != kTopicCodes.end());
}

}  // namespace

RedriveRun::RedriveRun(RedriveParts parts, std::string topic, std::string owner, std::string actor)
    : parts_(std::move(parts)), topic_(std::move(topic)), owner_(std::move(owner)), actor_(std::move(actor)) {}

RedriveReport RedriveRun::run(store::Redrive opened) {
    std::thread publisher;
    std::thread recorder;
    try {
        publisher = std::thread([this] { publish_all(); });
        recorder = std::thread([this] { record_all(); });
        read();
    } catch (const std::system_error& failure) {
        end_early(std::string("no thread could be started: ") + failure.what(), true);
    }
    all_read();
    if (publisher.joinable()) publisher.join();
    if (recorder.joinable()) recorder.join();
    return finish(std::move(opened));
}

// --- reading -------------------------------------------------------------------------------------------------------

void RedriveRun::read() {
    while (!parts_.gate.closed()) {
        const auto some = room();
        if (!some || !read_page(*some)) break;
    }
}

void RedriveRun::all_read() {
    const std::lock_guard lock(mutex_);
    all_read_ = true;
    changed_.notify_all();
}

/// Waits for some; none: no further page is begun.
std::optional<RedriveRun::Room> RedriveRun::room() {
    const auto most = static_cast<std::size_t>(std::max(1, parts_.options.pages_in_flight));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
        const bool some = in_flight_.pages < most && in_flight_.bytes < kMaxRedriveBytes;
        return ends_early_ || some || in_flight_.pages == 0;
    });
    if (ends_early_) return std::nullopt;
    const auto pages = std::min<std::size_t>(most - in_flight_.pages,
                                             static_cast<std::size_t>(std::max(1, parts_.options.pages_at_once)));
    const std::size_t bytes = kMaxRedriveBytes - std::min(kMaxRedriveBytes, in_flight_.bytes);
    return Room{.letters = parts_.options.page * static_cast<std::int32_t>(pages),
                .bytes = static_cast<std::int64_t>(bytes),
                .passed_by = passed_by_};
}

bool RedriveRun::read_page(const Room& room) {
    const store::RetryRequest request{owner_, actor_, parts_.options.retry_lease};
    const store::RedrivePage page{.letters = room.letters, .bytes = room.bytes, .left_out_topics = room.passed_by};
    Result<std::vector<store::RetryClaim>> claims;
    Begun begun;
    for (int attempt = 1;; ++attempt) {
        begun.at = parts_.options.clock->now();
        claims = parts_.letters.next_of_redrive(topic_, request, page);
        // Not so after an answer that was lost: the page behind it is begun, and not known here.
        const bool again = !claims && claims.error().error_class == ErrorClass::retryable && attempt < kStoreAttempts;
        if (!again || !parts_.gate.wait(parts_.options.store_retry_wait * (1 << (attempt - 1)))) break;
    }
    const std::lock_guard lock(mutex_);
    if (!claims) {
        std::string problem = "the next messages could not be read: " + claims.error().message;
        if (claims.error().error_class == ErrorClass::ambiguous) {
            problem += " (some may stay RETRYING until their lease has run out)";
        }
        lost_ = lost_ || claims.error().code == kNotOwner;
        if (problem_.empty()) problem_ = std::move(problem);
        return false;
    }
    complete_ = claims->empty();
    if (complete_) return false;
    begun.claims = std::move(*claims);
    const auto each = static_cast<std::size_t>(std::max(1, parts_.options.page));
    begun.load.pages = (begun.claims.size() + each - 1) / each;
    for (const store::RetryClaim& claim : begun.claims) begun.load.bytes += bytes_of(claim);
    in_flight_ += begun.load;
    begun_.push_back(std::move(begun));
    changed_.notify_all();
    return true;
}

// --- publishing ----------------------------------------------------------------------------------------------------

void RedriveRun::publish_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return !begun_.empty() || all_read_; });
        if (begun_.empty()) break;
        std::vector<Begun> pages = std::exchange(begun_, {});
        lock.unlock();
        Load load;
        for (const Begun& page : pages) load += page.load;
        std::vector<store::RetryEnd> ends = publish(std::move(pages));
        failpoint("redrive.after_publish");
        lock.lock();
        std::ranges::move(ends, std::back_inserter(ended_));
        ended_load_ += load;
        changed_.notify_all();
    }
    all_published_ = true;
    changed_.notify_all();
}

/// Why no record of the page goes out any more; empty: they do.
std::string RedriveRun::not_published_now(const Begun& page) {
    {
        const std::lock_guard lock(mutex_);
        if (publish_none_) return "the redrive ended before it";
    }
    const Duration waited = parts_.options.clock->now() - page.at;
    if (waited + parts_.options.publish_at_most < parts_.options.retry_lease) return "";
    end_early("publishing was too slow for dead_letters.retry_lease_seconds: the rest was not tried", false);
    return std::string(kTooLate);
}

std::vector<store::RetryEnd> RedriveRun::publish(std::vector<Begun> pages) {
    std::set<std::string> taken_over;
    for (const Begun& page : pages) {
        for (const store::RetryClaim& claim : page.claims) {
            if (claim.taken_over) taken_over.insert(claim.id);
        }
    }
    std::vector<store::RetryEnd> ends = publish_begun(std::move(pages));
    for (store::RetryEnd& end : ends) {
        if (taken_over.contains(end.id)) end = end_of_taken_over(std::move(end));
    }
    return ends;
}

std::vector<store::RetryEnd> RedriveRun::publish_begun(std::vector<Begun> pages) {
    std::vector<store::RetryEnd> ends;
    std::vector<std::string> lane_ids;
    std::vector<store::LetterDetail> spooled;
    std::vector<std::string> ids;
    std::vector<Record> records;
    for (Begun& page : pages) {
        const std::string not_now = not_published_now(page);
        for (store::RetryClaim& claim : page.claims) {
            if (claim.verdict != store::RetryVerdict::begun || !claim.letter) continue;
            if (claim.letter->letter.lane_row) {
                lane_ids.push_back(claim.id);
            } else if (std::string why = parts_.refused(*claim.letter); !why.empty()) {
                ends.push_back({claim.id, store::RetryResult::not_tried, std::move(why)});
            } else if (is_of_spool(claim.letter->letter)) {
                spooled.push_back(std::move(*claim.letter));
            } else if (parts_.options.stand_alone()) {
                ends.push_back({claim.id, store::RetryResult::unpublished, std::string(kStandAlone)});
            } else if (!not_now.empty()) {
                ends.push_back({claim.id, store::RetryResult::not_tried, not_now});
            } else {
                records.push_back(replay_of(std::move(*claim.letter), parts_.new_id()));
                ids.push_back(claim.id);
            }
            claim.letter.reset();
        }
    }
    give_back(lane_ids, ends);
    put_back(spooled, ends);
    if (records.empty()) return ends;
    std::vector<Outcome> outcomes = send(records);
    if (broker_is_away(outcomes)) {
        end_early(why_away(outcomes), true);
    } else {
        pass_by_topics(records, outcomes);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) ends.push_back(end_of(std::move(ids[i]), outcomes[i]));
    return ends;
}

std::vector<Outcome> RedriveRun::send(const std::vector<Record>& records) {
    std::vector<Outcome> outcomes;
    if (parts_.replayer != nullptr) {
        outcomes = parts_.replayer->publish(records);
        outcomes.resize(records.size(), {.kind = OutcomeKind::ambiguous, .code = "NO_OUTCOME"});
    } else {
        outcomes.resize(records.size(), {.kind = OutcomeKind::retryable,
                                         .detail = "this process has no connection to Kafka",
                                         .not_attempted = true});
    }
    return outcomes;
}

void RedriveRun::pass_by_topics(const std::vector<Record>& records, std::vector<Outcome>& outcomes) {
    std::set<std::string_view> taking;
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (!is_turned_away(outcomes[i])) taking.insert(records[i].topic);
    }
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (taking.contains(records[i].topic)) {
            cut_off_ = cut_off_ || outcomes[i].not_attempted;
            continue;
        }
        outcomes[i].not_attempted = true;
        if (std::ranges::find(passed_by_, records[i].topic) != passed_by_.end()) continue;
        if (passed_by_.empty()) {
            why_passed_by_ =
                "what is for topic " + records[i].topic + " was left out: " + end_of({}, outcomes[i]).detail;
        }
        passed_by_.push_back(records[i].topic);
    }
    if (passed_by_.size() <= kMaxTopicsPassedBy) return;
    ends_early_ = true;
    gives_up_ = true;
    if (problem_.empty()) problem_ = "more than " + std::to_string(kMaxTopicsPassedBy) + " topics take nothing";
    changed_.notify_all();
}

void RedriveRun::give_back(const std::vector<std::string>& ids, std::vector<store::RetryEnd>& ends) {
    if (ids.empty()) return;
    const auto problems = parts_.letters.return_to_lane(owner_, actor_, ids);
    if (!problems) {
        std::vector<store::RetryEnd> kept;
        for (const std::string& id : ids) {
            kept.push_back({id, store::RetryResult::not_tried, problems.error().message});
        }
        if (problems.error().error_class == ErrorClass::ambiguous && were_given_back(kept)) {
            return count(store::RetryResult::published, static_cast<std::int64_t>(ids.size()));
        }
        end_early("messages could not be put back into their lane: " + problems.error().message, false);
        std::ranges::move(kept, std::back_inserter(ends));
        return;
    }
    const auto refused = std::ranges::count_if(*problems, [](const std::string& problem) { return !problem.empty(); });
    count(store::RetryResult::failed, refused);
    count(store::RetryResult::published, static_cast<std::int64_t>(problems->size()) - refused);
}

/// After an answer that was lost. The lane's rows and the letters change in one transaction, so that the letters tell;
/// who ends their retries waits for it, if it is still under way. Ends that are recorded by that are taken away.
bool RedriveRun::were_given_back(std::vector<store::RetryEnd>& ends) {
    StoreAttempts attempts(parts_.options.store_retry_wait, parts_.gate);
    const auto ended = attempts.run([&] { return parts_.letters.end_of_redrive_page(topic_, owner_, actor_, ends); });
    if (!ended) return false;
    const auto one = parts_.letters.find(ends.front().id);
    if (*ended == 0 && one && *one && (*one)->letter.status == store::LetterStatus::resolved) return true;
    if (*ended > 0 || attempts.was_ambiguous()) {
        for (const store::RetryEnd& end : std::exchange(ends, {})) count(end);
    }
    return false;
}

void RedriveRun::put_back(const std::vector<store::LetterDetail>& letters, std::vector<store::RetryEnd>& ends) {
    if (letters.empty()) return;
    std::vector<Outcome> outcomes = parts_.spools->put_back(letters);
    outcomes.resize(letters.size(), {.kind = OutcomeKind::ambiguous, .code = "NO_OUTCOME"});
    if (broker_is_away(outcomes)) {
        end_early("entries could not be put back into their spool: " + end_of({}, outcomes.front()).detail, false);
    }
    for (std::size_t i = 0; i < letters.size(); ++i) {
        store::RetryEnd end = end_of(letters[i].letter.id, outcomes[i]);
        // The entry forbids it: it may be looked at again, as if it had been left out.
        if (end.result == store::RetryResult::failed) end.result = store::RetryResult::not_tried;
        ends.push_back(std::move(end));
    }
}

}  // namespace deliverd::deadletter
