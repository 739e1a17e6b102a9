#include "relay/relay_core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "pipeline/decide.h"

namespace deliverd::relay {

using pipeline::LaneTotals;
using store::EventOrigin;
using store::EventRow;

namespace {

constexpr std::size_t kSmallestPage = 2;
constexpr std::size_t kLargestPage = 32;
constexpr std::size_t kPagesInABatch = 16;
constexpr std::size_t kSettleBatches = 4;           // in one settle at most
constexpr std::size_t kAggregatesInHandLimit = 16;  // one aggregate may have this part of the hand
constexpr std::size_t kAsideShare = 4;              // what waits for paused topics may have this part
constexpr std::size_t kTrialShare = 8;              // what is tried there may have this part of `parallelism`
constexpr std::int32_t kRefusedInARow = 8;          // settles; then only one row is read now and then
constexpr std::size_t kRowsAfterAFailure = 8;       // in a poll: the database may have failed at their size

/// As many as may be at the sink and as many to follow them, and batches on their way from and to the table.
std::size_t rows_in_hand(const RelayOptions& options) {
    return 2 * static_cast<std::size_t>(options.parallelism) + 4 * static_cast<std::size_t>(options.batch_size);
}

std::size_t page_of(const RelayOptions& options) {
    return std::clamp(static_cast<std::size_t>(options.batch_size) / kPagesInABatch, kSmallestPage, kLargestPage);
}

OrderBookLimits book_limits(const RelayOptions& options) {
    const std::size_t page = page_of(options);
    return {.of_one_aggregate = std::max(rows_in_hand(options) / kAggregatesInHandLimit, 2 * page),
            .follow_page = page,
            .gaps = RelayCore::kMostGaps,
            .aside = rows_in_hand(options) / kAsideShare};
}

}  // namespace

RelayCore::RelayCore(const RelayOptions& options, std::uint64_t seed, pipeline::Observer& observer, Log& log)
    : options_(options),
      random_(seed),
      reporter_(options.name, observer, log),
      limit_(options.throttle, options.retry_after_cap, reporter_),
      keeper_(options.lease),
      planner_(options.busy_poll, options.idle_poll),
      book_(book_limits(options)),
      destinations_(std::max<std::size_t>(static_cast<std::size_t>(options.parallelism) / kTrialShare, 1)),
      settles_(options.settles(kSettleBatches, kRefusedInARow)),
      budget_(options.held_bytes) {
    if (options.strict_order) horizon_.emplace();
}

// --- shards --------------------------------------------------------------------------------------------------------

void RelayCore::tended(Instant began, Instant now, const Result<store::ShardShare>& answer) {
    if (!answer) {
        reporter_.database_failed(now, "tend", answer.error(), 0);
        return keeper_.tend_failed(now);
    }
    const std::size_t held_before = keeper_.held();
    const ShardKeeper::Change change = keeper_.tended(began, *answer);
    drop_shards(change.lost);
    for (const std::int32_t shard : change.leaving) {
        book_.drop_queued(shard);
        // Nothing that the poll under way brings of this shard is taken, even if the shard is wanted again before that
        // poll has ended: what was dropped here is not in it.
        std::erase_if(asked_, [&](const store::ShardLease& lease) { return lease.shard == shard; });
    }
    if (change.gained) planner_.start_over();
    if (!change.lost.empty() || !change.leaving.empty() || keeper_.held() != held_before) {
        reporter_.log().info("shards of the lane changed hands", {{"lane", options_.name},
                                                                  {"held", keeper_.held()},
                                                                  {"leaving", keeper_.leaving().size()},
                                                                  {"lost", change.lost.size()},
                                                                  {"relays", keeper_.relays()}});
    }
    report();
}

/// What a poll under way brings of them is not taken either: their tokens are over (take_row).
void RelayCore::drop_shards(std::span<const std::int32_t> lost) {
    for (const std::int32_t shard : lost) {
        book_.drop_shard(shard);
        reporter_.add(&LaneTotals::conflicts, settles_.drop([&](const store::EventSettlement& settlement) {
            return settlement.lease.shard == shard;
        }));
    }
}

std::vector<store::ShardLease> RelayCore::begin_release() {
    std::vector<store::ShardLease> leases = keeper_.leaving();
    std::erase_if(leases, [&](const store::ShardLease& lease) { return !book_.at_rest(lease.shard); });
    return leases;
}

void RelayCore::end_release(Instant now, std::span<const store::ShardLease> leases, const Result<void>& answer) {
    if (!answer) reporter_.database_failed(now, "release", answer.error(), leases.size());
    for (const store::ShardLease& lease : leases) {
        keeper_.released(lease);
        book_.drop_shard(lease.shard);
    }
}

// --- polls ---------------------------------------------------------------------------------------------------------

std::size_t RelayCore::in_hand_limit() const {
    return rows_in_hand(options_);
}

std::size_t RelayCore::most_rows() const {
    return in_hand_limit() + static_cast<std::size_t>(options_.batch_size) + kMostFollowed * page_of(options_) +
           static_cast<std::size_t>(options_.parallelism);
}

std::size_t RelayCore::room() const {
    const std::size_t rows = book_.rows();
    if (rows >= in_hand_limit()) return 0;
    if (settles_.refused()) return 1;  // what else is sent would be sent again
    return std::min(
        {in_hand_limit() - rows, budget_.room(rows, book_.bytes()), static_cast<std::size_t>(options_.batch_size)});
}

/// For a poll. Rows in hand that come again must not take the room of others.
std::size_t RelayCore::most_bytes(bool rows_come_again) const {
    return budget_.left(rows_come_again || book_.failed_before() > 0 ? 0 : book_.bytes());
}

/// When the next poll is due; none: something else must happen first.
std::optional<Instant> RelayCore::poll_due_at(Instant now) const {
    if (draining_ || book_.polling() || polls_left_ == 0 || keeper_.stale(now) || room() == 0) return std::nullopt;
    const Instant next = planner_.next_poll();
    return settles_.refused() ? std::max(next, last_poll_ + pipeline::kReadIntervalWhileRefused) : next;
}

bool RelayCore::can_poll(Instant now) const {
    const std::optional<Instant> due = poll_due_at(now);
    return due && *due <= now;
}

Instant RelayCore::next_poll(Instant now) const {
    const Instant nap = now + pipeline::kLongestNap;
    return std::min(nap, poll_due_at(now).value_or(nap));
}

std::optional<store::EventRead> RelayCore::begin_poll(Instant now) {
    if (!can_poll(now)) return std::nullopt;
    asked_ = keeper_.active();
    if (asked_.empty()) return std::nullopt;
    // Until something is certain, a poll only asks for what is.
    if (polls_left_ && !(horizon_ && horizon_->nothing())) --*polls_left_;
    last_poll_ = now;
    store::EventRead request;
    request.shards.reserve(asked_.size());
    for (const store::ShardLease& lease : asked_) request.shards.push_back(lease.shard);
    const PollPlanner::Poll poll = planner_.plan(now);
    request.after = poll.after;
    request.up_to = poll.up_to;
    request.end_above = poll.end_above;
    asked_rows_ = book_.full() ? 0 : room() + (poll.sees_rows_again ? book_.rows() : 0);
    const std::size_t fitting = budget_.rows(book_.bytes());
    request.byte_limit = static_cast<std::int64_t>(most_bytes(poll.sees_rows_again));
    if (horizon_) ask_what_is_certain(request);
    // Those in hand come again, as far as they are still due.
    asked_due_ = std::min(static_cast<std::size_t>(options_.batch_size), fitting) + book_.failed_before();
    if (poll_failed_) {
        asked_rows_ = std::min(asked_rows_, kRowsAfterAFailure);
        asked_due_ = std::min(asked_due_, kRowsAfterAFailure);
    }
    request.limit = static_cast<std::int32_t>(asked_rows_);
    request.due_limit = static_cast<std::int32_t>(asked_due_);
    request.follow_limit = static_cast<std::int32_t>(page_of(options_));
    request.follow = book_.begin_poll(std::clamp<std::size_t>(fitting / page_of(options_), 1, kMostFollowed));
    return request;
}

void RelayCore::ask_what_is_certain(store::EventRead& request) {
    request.end_above = horizon_->known();
    if (horizon_->nothing()) {
        asked_rows_ = 0;
    } else if (!request.up_to && !horizon_->everything()) {  // a sweep ends where the position was, which is certain
        request.up_to = std::to_string(horizon_->certain());
    }
}

void RelayCore::learn_what_is_certain(Instant began, Instant now, const store::EventBatch& batch) {
    horizon_->polled(began, now, batch);
    if (const std::optional<Instant> next = horizon_->next_poll()) planner_.poll_again(*next);
}

/// A row that failed was sent before. What lies behind the horizon lies behind the position too, and is read later.
bool RelayCore::may_be_sent(const EventRow& row) const {
    return !horizon_ || row.message.failures > 0 || row.sequence <= horizon_->certain();
}

void RelayCore::end_poll(Instant began, Instant now, Result<store::EventBatch> answer) {
    poll_failed_ = !answer;
    if (!answer) {
        book_.end_poll(false);
        planner_.failed(began, now, random_);
        return reporter_.database_failed(now, "read", answer.error(), 0);
    }
    if (answer->writers) planner_.saw_writers(*answer->writers, began);
    PollPlanner::PollResult found;
    found.began = began;
    found.ended = now;
    found.asked = asked_rows_ > 0 && believed(began, now, *answer);
    taken_ = 0;
    take(*answer, found);
    found.anything_new = taken_ > 0;
    book_.end_poll(!answer->follow_cut);  // a page that was cut short does not say that it was the last one
    found.more_to_ask = found.more_to_ask || book_.follow_wanted();
    planner_.polled(found);
    if (horizon_) learn_what_is_certain(began, now, *answer);
    ASSERT(book_.rows() <= most_rows());
    reporter_.claimed(taken_);
    report();
}

/// False: the forward rows were thrown away, because earlier ones of the same aggregates may lie behind the position.
bool RelayCore::believed(Instant began, Instant now, store::EventBatch& batch) {
    const auto forward = std::find_if(batch.rows.begin(), batch.rows.end(),
                                      [](const EventRow& row) { return row.origin == EventOrigin::forward; });
    const auto last = forward == batch.rows.end() ? std::nullopt : std::optional(Position::of(batch.rows.back()));
    // What is read with a horizon is certain: nobody need be watched.
    const auto writers = horizon_ ? std::nullopt : std::exchange(batch.writers, std::nullopt);
    if (planner_.believes(writers, last, batch.end, began, now)) return true;
    batch.rows.erase(forward, batch.rows.end());
    return false;
}

/// Due rows come first: they show whether the others can be trusted (order_book.h).
void RelayCore::take(store::EventBatch& batch, PollPlanner::PollResult& found) {
    std::size_t due = 0;
    std::size_t due_taken = 0;
    std::size_t forward = 0;
    bool trusted = !batch.due_cut;
    for (EventRow& row : batch.rows) {
        if (row.origin == EventOrigin::forward) {
            ++forward;
            take_forward(row, trusted, found);
        } else if (row.origin == EventOrigin::follow) {
            if (may_be_sent(row)) take_row(row, true);
        } else if (++due; due_taken >= static_cast<std::size_t>(options_.batch_size)) {
            trusted = false;
        } else {
            due_taken += take_row(row, true) == OrderBook::TakeResult::taken ? 1 : 0;
        }
        if (due >= asked_due_) trusted = false;
    }
    found.more_to_ask = !trusted;
    found.full = found.full || batch.forward_cut || (asked_rows_ > 0 && forward >= asked_rows_);
}

/// Where there is no room for a row there is none for those behind it: the position stays before it.
void RelayCore::take_forward(EventRow& row, bool trusted, PollPlanner::PollResult& found) {
    // At least one is passed: the planner assumes that a poll without room for any row found none.
    const bool enough_bytes = found.last && book_.bytes() >= options_.held_bytes;
    if (book_.rows() >= in_hand_limit() || enough_bytes) {
        found.full = true;
        return;
    }
    found.youngest_seconds = found.last ? std::min(found.youngest_seconds, row.age_seconds) : row.age_seconds;
    found.last = Position::of(row);
    take_row(row, trusted);
}

OrderBook::TakeResult RelayCore::take_row(EventRow& row, bool trusted) {
    const auto asked = std::lower_bound(asked_.begin(), asked_.end(), row.shard,
                                        [](const store::ShardLease& lease, std::int32_t s) { return lease.shard < s; });
    if (asked == asked_.end() || asked->shard != row.shard || keeper_.active_token(row.shard) != asked->token) {
        return OrderBook::TakeResult::ignored;
    }
    const double age_seconds = row.age_seconds;
    const std::size_t bytes = bytes_in_memory(row.message);
    const OrderBook::TakeResult taken = book_.take(row, *asked, trusted);
    if (taken != OrderBook::TakeResult::taken) return taken;
    ++taken_;
    reporter_.observer().on_lag(age_seconds);
    budget_.on_row(bytes);
    return taken;
}

// --- sends ---------------------------------------------------------------------------------------------------------

void RelayCore::send(Instant now, std::vector<const Message*>& batch) {
    batch.clear();
    const auto parallelism = static_cast<std::size_t>(options_.parallelism);
    if (draining_ || limit_.paused(now) || keeper_.stale(now) || book_.at_sink() >= parallelism) return;
    if (now >= destinations_.first_end()) resume(now, destinations_.trials());
    // Each row goes, or its aggregate is put aside, or it is counted as failed: the loop ends.
    const std::size_t most = limit_.permits(now, parallelism - book_.at_sink());
    while (batch.size() < most) {
        Held* held = book_.send_next(now);
        if (held == nullptr) break;
        Message& message = held->row.message;
        message.topic = options_.topic.topic_of(message);
        const Destinations::May may = destinations_.ask(message.topic, now);
        if (may == Destinations::May::go) {
            batch.push_back(&message);
            continue;
        }
        book_.at_sink(message);  // it did not go there
        if (may == Destinations::May::wait || book_.room_aside()) {
            book_.set_aside(*held);
        } else {
            fail_untried(now, *held);
        }
    }
    if (batch.empty()) return;
    ASSERT(book_.at_sink() <= parallelism);
    limit_.on_sent(now, batch.size());
    report();
}

Instant RelayCore::next_send(Instant now) const {
    const Instant nap = now + pipeline::kLongestNap;
    if (draining_ || !(book_.anything_to_send() || book_.anything_aside())) return nap;
    if (limit_.paused(now)) return std::min(nap, limit_.paused_until());
    if (!book_.anything_to_send()) return std::min(nap, destinations_.first_end());
    const Instant next = limit_.next_permit(now);
    const bool room = book_.at_sink() < static_cast<std::size_t>(options_.parallelism);
    return room && next > now ? std::min(nap, next) : nap;
}

void RelayCore::outcomes(Instant now, std::span<Answer> answers) {
    for (Answer& answer : answers) {
        if (Held* held = book_.at_sink(*answer.message)) {
            finish(now, *held, answer);
        } else {
            reporter_.add(&LaneTotals::conflicts, 1);  // its shard went to another relay in the meantime
        }
    }
    if (book_.follow_wanted()) planner_.wake(now);
    report();
}

void RelayCore::finish(Instant now, Held& held, Answer& answer) {
    const Outcome& outcome = answer.outcome;
    const Message& message = held.row.message;
    const bool delivered = outcome.kind == OutcomeKind::delivered;
    reporter_.observer().on_outcome(outcome.kind, outcome.code, answer.at - held.began);
    if (!delivered) reporter_.observer().on_failure(message, outcome);
    limit_.on_outcome(now, outcome, held.began);
    // Neither of these says anything about the event.
    if (outcome.kind == OutcomeKind::retryable && outcome.not_attempted) return put_off(now, held, outcome);
    if (outcome.kind == OutcomeKind::retryable && outcome.code == sink::kStopped) return put_back(held);
    // Whatever came of it, its topic takes events again.
    if (destinations_.attempted(message.topic, held.began, delivered)) resume(now, book_.aggregates());
    // We did not wait for the answer: the event is no worse for it, and the next relay sends it again.
    if (outcome.kind == OutcomeKind::ambiguous && cut_off_) {
        reporter_.add(&LaneTotals::abandoned, 1);
        book_.failed(held);
        return book_.settled(held, Recorded::unknown);
    }
    if (!delivered) return fail(now, held, outcome, options_.retry);
    settle(now, held, outcome, options_.retry);
    book_.delivered(held);
}

void RelayCore::fail(Instant now, Held& held, const Outcome& outcome, const RetryPolicy& retry) {
    reporter_.send_failed(now, held.row.message, outcome, settle(now, held, outcome, retry));
    book_.failed(held);
}

/// Never makes it dead: what was not tried may be bound for a part of the topic that is not away.
void RelayCore::fail_untried(Instant now, Held& held) {
    const std::string& topic = held.row.message.topic;
    Outcome outcome = destinations_.why(topic);
    outcome.detail = "not tried: topic " + topic + " just took nothing, others did: " + outcome.detail;
    RetryPolicy retry = options_.retry;
    retry.dead_at_failures = std::numeric_limits<std::int32_t>::max();
    fail(now, held, outcome, retry);
}

store::Settlement RelayCore::settle(Instant now, const Held& held, const Outcome& outcome, const RetryPolicy& retry) {
    const Message& message = held.row.message;
    store::Settlement settlement = pipeline::decide(message, outcome, retry, options_.retry_after_cap, random_);
    settles_.add({held.row.row_id, message.key, held.lease, settlement}, now);
    return settlement;
}

/// Of a leaving shard nothing more is sent, not even this row: it is the next owner's.
void RelayCore::put_back(Held& held) {
    const std::int32_t shard = held.row.shard;
    book_.put_back(held);
    if (!keeper_.active_token(shard)) book_.drop_queued(shard);
}

void RelayCore::resume(Instant now, std::size_t without_row) {
    book_.resume(without_row);
    if (book_.follow_wanted()) planner_.wake(now);
}

/// If the broker is out of reach, nothing is sent for a while. Otherwise at most the topic is paused, and the row costs
/// an attempt if others are delivered in the meantime (pipeline/destinations.h).
void RelayCore::put_off(Instant now, Held& held, const Outcome& outcome) {
    const Duration pause = std::min(outcome.retry_after.value_or(kPauseWhenNotAttempted), options_.retry_after_cap);
    const std::string topic = held.row.message.topic;
    const bool unreachable = outcome.code == sink::kBrokerUnreachable;
    if (!unreachable) {
        if (!held.refused) held.refused = held.began;
        const auto refusal = destinations_.refused(topic, *held.refused, held.began, now, pause, outcome);
        if (refusal == Destinations::Refusal::counts_alone) resume(now, book_.aggregates());
        if (refusal != Destinations::Refusal::waits) return fail(now, held, outcome, options_.retry);
    }
    reporter_.put_off(now, held.row.message, outcome, !unreachable);
    put_back(held);  // and is set aside when its turn comes
    if (unreachable) limit_.pause_until(now + pause);
}

}  // namespace deliverd::relay
