#include "deadletter/manager.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"
#include "base/text.h"
#include "base/try.h"
#include "deadletter/provenance.h"
#include "deadletter/redrive.h"
#include "deadletter/retry_rules.h"

namespace deliverd::deadletter {
namespace {

RetryReport nothing_published(const std::string& why) {
    return {.answer = RetryAnswer::not_published, .message = "nothing was published: " + why};
}

RetryReport unavailable(std::string_view what, const Error& error) {
    std::string message = "nothing was published: " + std::string(what) + ": " + error.message;
    if (error.error_class == ErrorClass::ambiguous) message += " (it may stay RETRYING until this retry's lease ends)";
    return {.answer = RetryAnswer::unavailable, .message = std::move(message), .store_error = error};
}

/// Why no end was recorded; `after` is the letter now.
std::string why_not_ours(const Result<std::optional<store::LetterDetail>>& after) {
    if (!after) return "another process may have taken it over";
    if (!*after) return "it was deleted meanwhile, after this retry's lease had ended";
    const store::LetterStatus status = (*after)->letter.status;
    if (status == store::LetterStatus::dead) return "it is DEAD now: this retry's lease had ended";
    return "its lease had ended, and another process took it over";
}

ChangeReport failed(const Error& error) {
    return {.answer = ChangeAnswer::unavailable, .store_error = error};
}

ChangeReport refused(std::string reason) {
    return {.answer = ChangeAnswer::conflict, .reason = std::move(reason)};
}

constexpr const char* kUnderWay = "a retry of it is under way";

}  // namespace

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

RetryServices Manager::services() {
    return {.options = options_,
            .letters = letters_,
            .replayer = replayer_,
            .spools = spools_,
            .log = log_,
            .gate = gate_,
            .new_id = new_id_};
}

void Manager::close() {
    gate_.close(Duration::zero());
}

bool Manager::stop(Duration patience) {
    if (gate_.close(patience)) return true;
    log_.warn("dead letters: a retry has not ended in time");
    return false;
}

// --- one letter ----------------------------------------------------------------------------------------------------

RetryReport Manager::retry(std::string_view id, std::string_view actor, const SendRule& rule) {
    RetryReport report = begin_and_send(id, actor, rule);
    if (observer_ != nullptr) observer_->on_retry(report.answer);
    return report;
}

RetryReport Manager::begin_and_send(std::string_view id, std::string_view actor, const SendRule& rule) {
    const StopGate::Pass pass(gate_);
    if (!pass) {
        return {.answer = RetryAnswer::unavailable, .message = "nothing was published: deliverd is stopping"};
    }
    const auto found = letters_.find(id);
    if (!found) return unavailable("the message could not be read", found.error());
    if (!*found) return {.answer = RetryAnswer::not_found, .message = "message not found: " + one_line(id)};
    const store::LetterDetail& detail = **found;
    // All refusals come before begin_retry(), so that a letter that is refused does not change.
    std::string reason = not_retryable_reason(detail, options_.dead_letter_pattern);
    if (reason.empty()) reason = refusal(detail, rule);
    if (!reason.empty()) {
        return {
            .answer = RetryAnswer::conflict, .message = std::string(kNotRetryable) + reason, .letter = detail.letter};
    }
    const bool to_kafka = !detail.letter.lane_row && !is_of_spool(detail.letter);
    if (!options_.stand_alone() && replayer_ == nullptr && to_kafka) {
        return nothing_published("this process has no connection to Kafka");
    }

    std::string owner = new_id_();
    const std::array<std::string, 1> ids = {detail.letter.id};
    const Instant begun_at = options_.clock->now();  // the lease does not begin earlier
    auto claims = letters_.begin_retry(ids, {owner, std::string(actor), options_.retry_lease});
    // It may have been begun, if the answer was lost: its lease ends by itself.
    if (!claims) return unavailable("the retry could not be recorded", claims.error());
    ASSERT(claims->size() == 1);
    const store::RetryClaim& claim = claims->front();
    if (claim.verdict != store::RetryVerdict::begun || !claim.letter) return answer_to(claim);
    failpoint("retry.after_begin");
    return send({std::move(*claims), begun_at}, std::move(owner), actor, rule);
}

RetryReport Manager::send(RetryBatch batch, std::string owner, std::string_view actor, const SendRule& rule) {
    store::Letter letter = batch.claims.front().letter->letter;
    BatchSender sender(services(), std::move(owner), std::string(actor),
                       {.refusal = [&](const auto& detail) { return refusal(detail, rule); }});
    std::vector<RetryBatch> batches;
    batches.push_back(std::move(batch));
    const SentBatch sent = sender.send(std::move(batches));
    failpoint(is_of_spool(letter) ? "retry.after_put_back" : "retry.after_publish");

    // A letter of a lane is recorded by the call that returns its row.
    const bool is_recorded = !sent.recorded.empty();
    const store::RetryEnd& end = is_recorded ? sent.recorded.front() : sent.ends.front();
    const Result<std::int64_t> recorded = is_recorded ? 1 : sender.record(sent.ends);
    // The answer shows the letter as it is now; if it cannot be read, as this retry leaves it.
    const auto after = letters_.find(letter.id);
    if (after && *after) {
        letter = (*after)->letter;
    } else if (resolves(end.result)) {
        letter.status = store::LetterStatus::resolved;
    }
    if (letter.lane_row && letter.status == store::LetterStatus::resolved) {
        return answer_to({end.id, store::RetryResult::published}, std::move(letter));  // also after a lost answer
    }
    if (recorded && *recorded > 0) {
        const bool deleted = is_recorded && after && !*after;
        RetryReport report =
            answer_to(deleted ? store::RetryEnd{end.id, end.result, why_not_ours(after)} : end, std::move(letter));
        if (sent.spool_forbids) {
            report.answer = RetryAnswer::conflict;
            report.message = "not put back into its spool: " + end.detail;
        }
        return report;
    }
    const std::string reason = recorded ? why_not_ours(after) : recorded.error().message;
    log_.error("dead letters: the end of a retry could not be recorded",
               {{"message_id", letter.id}, {"detail", end.detail}, {"error", reason}});
    return answer_unrecorded(end, std::move(letter), reason);
}

std::string Manager::refusal(const store::LetterDetail& letter, const SendRule& rule) const {
    std::string reason = replay_refusal(letter, options_.dead_letter_pattern);
    if (reason.empty() && rule) reason = rule(letter.letter);
    return reason.empty() ? refusal_here(letter) : reason;
}

std::string Manager::refusal_here(const store::LetterDetail& letter) const {
    if (letter.letter.lane_row) return {};
    if (is_of_spool(letter.letter)) {
        return spools_ != nullptr ? spools_->refusal(letter.letter) : "this process has no spools";
    }
    if (options_.stand_alone()) return {};
    return destination_refusal(letter.letter.provenance.original_topic, options_.replay_topics);
}

// --- a topic -------------------------------------------------------------------------------------------------------

Result<std::vector<PlannedReplay>> Manager::plan(std::string_view topic, const SendRule& rule) {
    TRY_ASSIGN(auto found, letters_.destinations(topic, kMaxPlanned));
    std::vector<PlannedReplay> planned;
    for (store::Destination& destination : found) {
        std::string refused;  // lanes and spools are named by this configuration, not by a header
        if (destination.source == "kafka" && !options_.stand_alone()) {
            refused = is_dead_letter_topic(destination.topic, options_.dead_letter_pattern)
                          ? "the topic is itself for dead letters"
                          : destination_refusal(destination.topic, options_.replay_topics);
        }
        if (refused.empty() && rule) {
            store::Letter any;  // the rule gets what all letters for this destination have in common
            any.source = destination.source;
            any.provenance.original_topic = destination.topic;
            refused = rule(any);
        }
        planned.push_back({std::move(destination), std::move(refused)});
    }
    return planned;
}

Result<RedriveReport> Manager::retry_all(std::string_view topic, std::string_view actor, const SendRule& rule) {
    const StopGate::Pass pass(gate_);
    if (!pass) return retryable(std::string(kStopping), "nothing was published: deliverd is stopping");
    return redrive(topic, actor, rule, false);
}

Result<std::unique_ptr<RedriveRun>> Manager::begin_redrive(std::string_view topic, std::string_view actor,
                                                           const SendRule& rule, bool resumed) {
    RedriveRequest request{.topic = std::string(topic),
                           .owner = new_id_(),
                           .actor = std::string(actor),
                           .refusal = [this, rule](const auto& letter) { return refusal(letter, rule); },
                           .ends_when_stopped = options_.close_ends_redrives || rule,
                           .resumed = resumed};
    TRY_ASSIGN(auto opened, letters_.open_redrive(topic, request.owner, actor, options_.retry_lease));
    if (!opened) return nullptr;
    return std::make_unique<RedriveRun>(services(), std::move(request), std::move(*opened));
}

Result<RedriveReport> Manager::redrive(std::string_view topic, std::string_view actor, const SendRule& rule,
                                       bool resumed) {
    TRY_ASSIGN(const auto run, begin_redrive(topic, actor, rule, resumed));
    if (!run) {
        RedriveReport elsewhere{.redrive = {}, .under_way_elsewhere = true};
        elsewhere.redrive.topic = std::string(topic);
        return elsewhere;
    }
    const store::Redrive& before = run->opened();
    RedriveReport report = run->run();
    if (observer_ != nullptr) {
        // The redrive's own counts include what processes before this one did.
        const store::Redrive& after = report.redrive;
        observer_->on_redrive(after.published - before.published, after.failed - before.failed,
                              after.in_doubt - before.in_doubt);
    }
    return report;
}

bool Manager::can_resume(const std::string& topic) const {
    const auto topics = letters_.topics();
    bool of_kafka = true;  // a topic without letters too: its redrive only has to be closed
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
    TRY_ASSIGN(auto abandoned, letters_.abandoned_redrives());
    std::int64_t resumed = 0;
    std::optional<Error> failure;  // of one; the others are resumed all the same
    for (const store::Redrive& left : abandoned) {
        if (gate_.closed()) break;
        // Without Kafka, or the spool, this process could only end it: another one may have them.
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

// --- by hand -------------------------------------------------------------------------------------------------------

ChangeReport Manager::mark_dead(std::string_view id, std::string_view actor) {
    const auto before = letters_.mark_dead(id, actor);
    if (!before) return failed(before.error());
    if (!*before) return {.answer = ChangeAnswer::not_found};
    if (std::string why = not_killable_reason(**before); !why.empty()) return refused(std::move(why));
    // A letter that is being retried does not change, which only a second look shows.
    const auto after = letters_.find(id);
    if (!after) return failed(after.error());
    if (!*after) return {.answer = ChangeAnswer::not_found};
    return (*after)->letter.status == store::LetterStatus::dead ? ChangeReport{} : refused(kUnderWay);
}

ChangeReport Manager::revive(std::string_view id, std::string_view actor) {
    const auto before = letters_.revive(id, actor);
    if (!before) return failed(before.error());
    if (!*before) return {.answer = ChangeAnswer::not_found};
    std::string why = not_revivable_reason(**before);
    return why.empty() ? ChangeReport{} : refused(std::move(why));
}

ChangeReport Manager::remove(std::string_view id, std::string_view actor) {
    const auto removed = letters_.remove(id, actor);
    if (!removed) return failed(removed.error());
    if (*removed == store::Removal::unknown) return {.answer = ChangeAnswer::not_found};
    return *removed == store::Removal::under_way ? refused(kUnderWay) : ChangeReport{};
}

PurgeReport Manager::purge(store::LetterStatus status, Duration age, std::optional<std::int64_t> limit,
                           std::string_view actor) {
    PurgeReport report{.more = true};
    int empty = 0;  // in a row: the first may only mean that the store reached the end and starts over
    while (report.more && (!limit || report.purged < *limit)) {
        const std::int64_t room = limit ? *limit - report.purged : kPurgePiece;
        const auto piece = static_cast<std::int32_t>(std::min<std::int64_t>(kPurgePiece, room));
        const auto gone = purge_piece(status, age, piece, actor);
        if (!gone) {
            report.store_error = gone.error();
            return report;
        }
        report.purged += *gone;
        empty = *gone == 0 ? empty + 1 : 0;
        report.more = empty < 2;
    }
    return report;
}

}  // namespace deliverd::deadletter
