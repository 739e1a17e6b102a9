#include "deadletter/manager.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "base/uuid.h"
#include "deadletter/provenance.h"
#include "deadletter/redrive.h"
#include "deadletter/retry_rules.h"
#include "deadletter/store_attempts.h"

namespace deliverd::deadletter {
namespace {

RetryReport nothing_published(const std::string& why) {
    return {.answer = RetryAnswer::not_published, .message = "nothing was published: " + why};
}

RetryReport unavailable(std::string_view what, const Error& error) {
    std::string message = "nothing was published: " + std::string(what) + ": " + error.message;
    if (error.error_class == ErrorClass::ambiguous)
        message += " (it may be RETRYING until this retry's lease has run out)";
    return {.answer = RetryAnswer::unavailable, .message = std::move(message), .store_error = error};
}

RetryReport back_in_lane(store::Letter letter) {
    std::string message = "back in its lane " + letter.lane_row->lane;
    return {.answer = RetryAnswer::resolved, .message = std::move(message), .letter = std::move(letter)};
}

/// Why the end of a retry met nothing to change; `after` is the letter as it stands now.
std::string why_not_ours(const Result<std::optional<store::LetterDetail>>& after) {
    if (!after) return "it is somebody else's by now";
    if (!*after) return "it was deleted meanwhile, after this retry's lease had run out";
    const store::LetterStatus status = (*after)->letter.status;
    if (status == store::LetterStatus::dead) return "it is DEAD by now: this retry's lease had run out";
    return "its lease had run out, and somebody else took it over";
}

}  // namespace

std::function<std::string()> uuid_source() {
    struct Source {
        std::mutex mutex;
        SystemRandom random;
        SystemClock clock;
    };
    return [source = std::make_shared<Source>()] {
        const std::lock_guard lock(source->mutex);
        return make_uuid_v7(source->clock.wall_now(), source->random);
    };
}

Manager::Manager(ManagerOptions options, store::DeadLetters& letters, Replayer* replayer, Log& log,
                 std::function<std::string()> new_id, Spools* spools)
    : options_(std::move(options)),
      letters_(letters),
      replayer_(replayer),
      log_(log),
      new_id_(std::move(new_id)),
      spools_(spools) {}

Manager::~Manager() {
    stop();
}

void Manager::close() {
    gate_.close(Duration::zero());
}

bool Manager::stop(Duration patience) {
    if (gate_.close(patience)) return true;
    log_.warn("dead letters: a retry has not ended in time");
    return false;
}

RetryReport Manager::retry(std::string_view id, std::string_view actor, const SendRule& rule) {
    RetryReport report = begin(id, actor, rule);
    if (observer_ != nullptr) observer_->on_retry(report.answer);
    return report;
}

RetryReport Manager::begin(std::string_view id, std::string_view actor, const SendRule& rule) {
    const StopGate::Pass pass(gate_);
    if (!pass) {
        return {.answer = RetryAnswer::unavailable, .message = "nothing was published: the program is about to end"};
    }
    const auto found = letters_.find(id);
    if (!found) return unavailable("the message could not be read", found.error());
    if (!*found) return {.answer = RetryAnswer::not_found, .message = "message not found: " + one_line(id)};
    const store::LetterDetail& detail = **found;
    std::string reason = not_retryable_reason(detail, options_.dead_letter_pattern);
    if (reason.empty() && rule) reason = rule(detail.letter);
    if (reason.empty()) reason = refusal_here(detail);
    if (!reason.empty()) {
        return {
            .answer = RetryAnswer::conflict, .message = std::string(kNotRetryable) + reason, .letter = detail.letter};
    }
    const bool to_kafka = !detail.letter.lane_row && !is_of_spool(detail.letter);
    if (!options_.stand_alone() && replayer_ == nullptr && to_kafka) {
        return nothing_published("this process has no connection to Kafka");
    }

    const std::string owner = new_id_();
    const std::array<std::string, 1> ids = {detail.letter.id};
    const Instant begun_at = options_.clock->now();  // the lease does not begin before
    const auto claims = letters_.begin_retry(ids, {owner, std::string(actor), options_.retry_lease});
    if (!claims) {
        // Where it is not certain that it was not begun, the lease runs out by itself.
        return unavailable("the retry could not be recorded", claims.error());
    }
    if (claims->empty()) return nothing_published("the store gave no answer");
    const store::RetryClaim& claim = claims->front();
    if (claim.verdict != store::RetryVerdict::begun || !claim.letter) return answer_to(claim);
    failpoint("retry.after_begin");
    if (options_.clock->now() - begun_at + options_.publish_at_most >= options_.retry_lease) {
        const store::RetryEnd late{claim.id, store::RetryResult::not_tried, std::string(kTooLate)};
        return record(claim, owner, actor, late);
    }
    return send(claim, owner, actor);
}

RetryReport Manager::send(const store::RetryClaim& claim, const std::string& owner, std::string_view actor) {
    const store::LetterDetail& detail = *claim.letter;
    if (detail.letter.lane_row) return give_back(claim, owner, actor);
    if (is_of_spool(detail.letter)) return put_back(claim, owner, actor);
    if (!options_.stand_alone()) return publish(claim, owner, actor);
    return record(claim, owner, actor, {detail.letter.id, store::RetryResult::unpublished, std::string(kStandAlone)});
}

RetryReport Manager::publish(const store::RetryClaim& claim, const std::string& owner, std::string_view actor) {
    const store::LetterDetail& detail = *claim.letter;
    const std::array<Record, 1> records = {replay_of(detail, new_id_())};
    const std::vector<Outcome> outcomes = replayer_->publish(records);
    failpoint("retry.after_publish");
    const Outcome outcome =
        outcomes.empty() ? Outcome{.kind = OutcomeKind::ambiguous, .code = "NO_OUTCOME"} : outcomes.front();
    return record(claim, owner, actor, end_of(detail.letter.id, outcome));
}

RetryReport Manager::give_back(const store::RetryClaim& claim, const std::string& owner, std::string_view actor) {
    const store::LetterDetail& detail = *claim.letter;
    const std::array<std::string, 1> ids = {detail.letter.id};
    const auto problems = letters_.return_to_lane(owner, actor, ids);
    if (!problems) {
        // Where the answer was lost and the row is back, the letter is RESOLVED, and this changes nothing any more.
        const store::RetryEnd end{detail.letter.id, store::RetryResult::not_tried,
                                  "the store failed: " + problems.error().message};
        return record(claim, owner, actor, end);
    }
    const auto after = letters_.find(detail.letter.id);
    store::Letter letter = after && *after ? (*after)->letter : detail.letter;
    if (!problems->empty() && !problems->front().empty()) {
        const bool deleted = after && !*after;
        return {.answer = RetryAnswer::conflict,
                .message = "not put back into its lane: " + (deleted ? why_not_ours(after) : problems->front()),
                .letter = std::move(letter)};
    }
    letter.status = store::LetterStatus::resolved;
    return back_in_lane(std::move(letter));
}

std::string Manager::refusal_here(const store::LetterDetail& detail) const {
    if (detail.letter.lane_row) return {};
    if (!is_of_spool(detail.letter)) {
        return options_.stand_alone()
                   ? ""
                   : destination_refusal(detail.letter.provenance.original_topic, options_.replay_topics);
    }
    return spools_ != nullptr ? spools_->refusal(detail.letter) : "this process has no spools";
}

RetryReport Manager::put_back(const store::RetryClaim& claim, const std::string& owner, std::string_view actor) {
    const store::LetterDetail& detail = *claim.letter;
    const std::vector<Outcome> outcomes = spools_->put_back(std::span(&detail, 1));
    failpoint("retry.after_put_back");
    const Outcome outcome =
        outcomes.empty() ? Outcome{.kind = OutcomeKind::ambiguous, .code = "NO_OUTCOME"} : outcomes.front();
    store::RetryEnd end = end_of(detail.letter.id, outcome);
    if (end.result == store::RetryResult::failed) end.result = store::RetryResult::not_tried;  // the entry forbids it
    RetryReport report = record(claim, owner, actor, end);
    if (report.answer == RetryAnswer::resolved) report.message = end.detail;
    if (outcome.kind == OutcomeKind::permanent) {
        report.answer = RetryAnswer::conflict;
        report.message = "not put back into its spool: " + end.detail;
    }
    return report;
}

RetryReport Manager::record(const store::RetryClaim& claim, const std::string& owner, std::string_view actor,
                            const store::RetryEnd& given) {
    const store::Letter& letter = claim.letter->letter;
    const store::RetryEnd end = claim.taken_over ? end_of_taken_over(given) : given;
    StoreAttempts attempts(options_.store_retry_wait, gate_);
    const auto ended =
        attempts.run([&] { return letters_.end_retry(owner, actor, std::span<const store::RetryEnd>(&end, 1)); });
    const auto after = letters_.find(letter.id);
    const bool seen = after && *after;
    store::Letter now = seen ? (*after)->letter : letter;
    if (ended && *ended > 0) {
        if (!seen && resolves(end.result)) now.status = store::LetterStatus::resolved;
        return answer_to(end, std::move(now));
    }
    if (ended && seen && now.lane_row && now.status == store::LetterStatus::resolved) {
        return back_in_lane(std::move(now));  // the answer of return_to_lane() was lost
    }
    // A repeat that found nothing to do, after an answer that was lost: the first one did it.
    if (seen && attempts.was_ambiguous() && stands_so(now, end.result)) return answer_to(end, std::move(now));
    const std::string reason = ended ? why_not_ours(after) : ended.error().message;
    log_.error("dead letters: the end of a retry could not be recorded",
               {{"message_id", letter.id}, {"detail", end.detail}, {"error", reason}});
    return answer_unrecorded(end, std::move(now), reason);
}

Result<std::vector<PlannedReplay>> Manager::plan(std::string_view topic) {
    auto found = letters_.destinations(topic, kMaxPlanned);
    if (!found) return Failure(std::move(found.error()));
    std::vector<PlannedReplay> planned;
    for (store::Destination& destination : *found) {
        std::string refused;
        if (destination.source == "kafka" && !options_.stand_alone()) {
            refused = is_dead_letter_topic(destination.topic, options_.dead_letter_pattern)
                          ? "the topic is itself for dead letters"
                          : destination_refusal(destination.topic, options_.replay_topics);
        }
        planned.push_back({std::move(destination), std::move(refused)});
    }
    return planned;
}

Result<RedriveReport> Manager::retry_all(std::string_view topic, std::string_view actor, const SendRule& rule) {
    const StopGate::Pass pass(gate_);
    if (!pass) return retryable(std::string(kStopping), "nothing was published: the program is about to end");
    return redrive(topic, actor, rule, false);
}

Result<RedriveReport> Manager::redrive(std::string_view topic, std::string_view actor, const SendRule& rule,
                                       bool resumed) {
    const std::string owner = new_id_();
    auto opened = letters_.open_redrive(topic, owner, actor, options_.retry_lease);
    if (!opened) return Failure(std::move(opened.error()));
    if (!*opened) {
        RedriveReport elsewhere{.redrive = {}, .under_way_elsewhere = true};
        elsewhere.redrive.topic = std::string(topic);
        return elsewhere;
    }
    const auto refused = [this, &rule](const store::LetterDetail& letter) {
        std::string refusal = replay_refusal(letter, options_.dead_letter_pattern);
        if (refusal.empty() && rule) refusal = rule(letter.letter);
        return refusal.empty() ? refusal_here(letter) : refusal;
    };
    RedriveRun run({.options = options_,
                    .letters = letters_,
                    .replayer = replayer_,
                    .spools = spools_,
                    .log = log_,
                    .gate = gate_,
                    .new_id = new_id_,
                    .refused = refused,
                    .ends_when_stopped = options_.close_ends_redrives || rule,
                    .resumed = resumed},
                   std::string(topic), owner, std::string(actor));
    const store::Redrive before = **opened;
    RedriveReport report = run.run(std::move(**opened));
    if (observer_ != nullptr) {
        const store::Redrive& after = report.redrive;
        observer_->on_redrive(after.published - before.published, after.failed - before.failed,
                              after.in_doubt - before.in_doubt);
    }
    return report;
}

bool Manager::can_resume(const std::string& topic) const {
    const auto topics = letters_.topics();
    bool of_kafka = true;  // where nothing is counted, it only has to be closed
    for (const store::TopicCounts& counts : topics ? *topics : std::vector<store::TopicCounts>{}) {
        if (counts.topic != topic) continue;
        store::LetterDetail any;
        any.letter.source = counts.source;
        if (counts.source.starts_with("lane:")) any.letter.lane_row.emplace();
        of_kafka = counts.source == "kafka";
        if (of_kafka) break;
        if (refusal_here(any).empty()) return true;
    }
    if (!of_kafka || options_.stand_alone() || replayer_ == nullptr) return false;
    const auto answered = replayer_->check(kBrokerDeadline);
    if (!answered) {
        log_.warn("dead letters: a redrive waits for a broker",
                  {{"topic", topic}, {"error", answered.error().message}});
    }
    return answered.has_value();
}

Result<std::int64_t> Manager::resume_abandoned() {
    const StopGate::Pass pass(gate_);
    if (!pass) return 0;
    auto abandoned = letters_.abandoned_redrives();
    if (!abandoned) return Failure(std::move(abandoned.error()));
    std::int64_t resumed = 0;
    std::optional<Error> failure;  // of one: the others are resumed all the same
    for (const store::Redrive& left : *abandoned) {
        if (gate_.closed()) break;
        // Else it could only be ended: it is left to a process that has Kafka, or the spool.
        if (!can_resume(left.topic)) continue;
        log_.info("dead letters: resuming a redrive", {{"topic", left.topic}, {"published", left.published}});
        auto report = redrive(left.topic, left.actor, {}, true);
        if (!report) {
            failure = std::move(report.error());
        } else if (!report->under_way_elsewhere) {
            ++resumed;
        }
    }
    if (failure) return Failure(std::move(*failure));
    return resumed;
}

}  // namespace deliverd::deadletter
