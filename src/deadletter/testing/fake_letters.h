// Dead letters in memory that keep the promises of store/dead_letters.h, as far as this room uses them, and can be made
// to fail at any call. The real stores are held to the same promises by the conformance suite.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "store/dead_letters.h"
#include "store/letter_rules.h"

namespace deliverd::deadletter {

class FakeLetters final : public store::DeadLetters {
public:
    struct Row {
        store::LetterDetail detail;
        std::optional<std::string> owner{};
        Duration expires{};
        std::optional<WallTime> retried_before_at{};
        bool lane_row_gone = false;
    };
    /// What happens to a call.
    enum class Fault { none, retryable, permanent, ambiguous_not_done, ambiguous_done };

    // --- for tests -------------------------------------------------------------------------------------------------

    std::vector<store::TopicCounts> topic_counts;  // what topics() answers
    /// Does not do what the conformance suite asks: what a redrive did not try counts as tried.
    bool forgets_what_was_not_tried = false;
    /// Asked before every call, with its number (from 1) and name, without the lock.
    std::function<Fault(int, std::string_view)> fault = [](int, std::string_view) { return Fault::none; };
    std::function<bool(const store::NewLetter&)> refuses = [](const store::NewLetter&) { return false; };
    /// What purge() deletes, given its limit.
    std::function<std::int64_t(std::int32_t)> purges = [](std::int32_t) { return 0; };

    /// Moves the database's clock.
    void advance(Duration span) {
        const std::lock_guard lock(mutex_);
        now_ += span;
    }

    /// Adds a letter from Kafka, PENDING; answers its id.
    std::string add(const std::string& original_topic, std::size_t value_bytes = 10) {
        const std::lock_guard lock(mutex_);
        Row row;
        const std::size_t number = ++added_;
        std::string digits = std::to_string(number);
        store::Letter& letter = row.detail.letter;
        letter.id = "00000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
        letter.source = "kafka";
        letter.topic = original_topic + ".dlq.v1";
        letter.provenance.original_topic = original_topic;
        letter.created_at = WallTime(std::chrono::microseconds(number));
        row.detail.record.topic = *letter.topic;
        row.detail.record.offset = static_cast<std::int64_t>(number);
        row.detail.record.key = "key-" + digits;
        row.detail.record.value = std::string(value_bytes, 'v');
        row.detail.record.headers = {{"n", digits}, {"error", "boom"}};
        rows_.push_back(std::move(row));
        return rows_.back().detail.letter.id;
    }
    std::string add_of_lane(const std::string& lane, const std::string& outbox) {
        const std::string id = add(lane);
        change(id, [&](Row& row) {
            row.detail.letter.topic.reset();
            row.detail.letter.source = "lane:" + lane;
            row.detail.letter.lane_row = store::LaneRow{lane, outbox, "1"};
        });
        return id;
    }
    void change(const std::string& id, const std::function<void(Row&)>& how) {
        const std::lock_guard lock(mutex_);
        how(*row(id));
    }
    [[nodiscard]] std::vector<std::string> ids() {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> all;
        for (const Row& each : rows_) all.push_back(each.detail.letter.id);
        return all;
    }
    [[nodiscard]] Row at(const std::string& id) {
        const std::lock_guard lock(mutex_);
        return *row(id);
    }
    [[nodiscard]] std::vector<std::string> calls() {
        const std::lock_guard lock(mutex_);
        return calls_;
    }
    [[nodiscard]] std::int64_t calls_of(std::string_view name) {
        const std::lock_guard lock(mutex_);
        return std::ranges::count(calls_, name);
    }
    // Letters begun at once, bytes of their values, and the largest page that was asked for.
    [[nodiscard]] std::size_t most_begun() const {
        const std::lock_guard lock(mutex_);
        return most_begun_;
    }
    [[nodiscard]] std::size_t most_bytes() const {
        const std::lock_guard lock(mutex_);
        return most_bytes_;
    }
    [[nodiscard]] std::int32_t largest_page() const {
        const std::lock_guard lock(mutex_);
        return largest_page_;
    }
    /// The letters and bytes of each page of a redrive that was asked for.
    [[nodiscard]] std::vector<std::pair<std::int32_t, std::int64_t>> asked() {
        const std::lock_guard lock(mutex_);
        return asked_;
    }
    [[nodiscard]] std::vector<store::NewLetter> stored() {
        const std::lock_guard lock(mutex_);
        return stored_;
    }

    // --- the port --------------------------------------------------------------------------------------------------

    Result<std::int64_t> store(std::span<const store::NewLetter> letters) override {
        return call<std::int64_t>("store", [&]() -> Result<std::int64_t> {
            if (std::ranges::any_of(letters, refuses)) return permanent(codes::kLetterRefused, "cannot be held");
            std::int64_t added = 0;
            for (const store::NewLetter& letter : letters) {
                const Record& record = letter.record;
                if (!seen_.insert({record.topic, record.partition, record.offset, record.timestamp_ms}).second)
                    continue;
                stored_.push_back(letter);
                ++added;
            }
            return added;
        });
    }

    Result<store::LetterPage> list(const store::LetterQuery&) override { return store::LetterPage{}; }
    Result<std::optional<store::LetterDetail>> find(std::string_view id) override {
        return call<std::optional<store::LetterDetail>>("find", [&]() -> Result<std::optional<store::LetterDetail>> {
            const Row* found = row(id);
            if (found == nullptr) return std::nullopt;
            return as_seen(*found);
        });
    }
    Result<std::vector<store::LetterAudit>> audit(std::string_view, std::int32_t) override {
        return std::vector<store::LetterAudit>{};
    }
    Result<std::vector<store::TopicCounts>> topics() override { return topic_counts; }
    Result<std::vector<store::Destination>> destinations(std::string_view topic, std::int32_t limit) override {
        using Found = std::vector<store::Destination>;
        return call<Found>("destinations", [&]() -> Result<Found> {
            Found found;
            for (const Row& each : rows_) {
                const store::Letter& letter = each.detail.letter;
                const bool is_open =
                    letter.status == store::LetterStatus::pending || letter.status == store::LetterStatus::retrying;
                if (!is_open || !of_topic(each, topic)) continue;
                const std::string& to = letter.provenance.original_topic;
                auto at = std::ranges::find(found, to, &store::Destination::topic);
                if (at == found.end()) at = found.insert(at, {to, letter.source});
                ++at->letters;
            }
            std::ranges::stable_sort(found, std::ranges::greater(), &store::Destination::letters);
            found.resize(std::min(found.size(), static_cast<std::size_t>(limit)));
            return found;
        });
    }

    Result<std::vector<store::RetryClaim>> begin_retry(std::span<const std::string> ids,
                                                       const store::RetryRequest& request) override {
        using Claims = std::vector<store::RetryClaim>;
        return call<Claims>("begin_retry", [&]() -> Result<Claims> {
            Claims claims;
            for (const std::string& id : ids) claims.push_back(begin(row(id), id, request));
            return claims;
        });
    }

    Result<std::int64_t> end_retry(std::string_view owner, std::string_view,
                                   std::span<const store::RetryEnd> ends) override {
        return call<std::int64_t>("end_retry", [&]() -> Result<std::int64_t> { return end_all(owner, ends, nullptr); });
    }

    Result<std::vector<std::string>> return_to_lane(std::string_view owner, std::string_view,
                                                    std::span<const std::string> ids) override {
        using Problems = std::vector<std::string>;
        return call<Problems>("return_to_lane", [&]() -> Result<Problems> {
            Problems problems;
            for (const std::string& id : ids) {
                const Row* lane = row(id);
                const bool ours = lane != nullptr && lane->owner == owner;
                problems.emplace_back(!ours ? "not begun" : lane->lane_row_gone ? "the row is gone" : "");
                const bool done = problems.back().empty();
                const store::RetryEnd end{id, done ? store::RetryResult::published : store::RetryResult::failed};
                end_all(owner, std::span(&end, 1), redrive_of(owner));
            }
            return problems;
        });
    }

    Result<std::optional<store::Redrive>> open_redrive(std::string_view topic, std::string_view owner,
                                                       std::string_view actor, Duration lease) override {
        using Opened = std::optional<store::Redrive>;
        return call<Opened>("open_redrive", [&]() -> Result<Opened> {
            auto found = redrives_.find(std::string(topic));
            const bool unfinished = found != redrives_.end() && !found->second.redrive.finished;
            const bool own = unfinished && found->second.owner == owner;
            if (unfinished && !own && found->second.expires > now_) return std::nullopt;
            if (!unfinished) {
                Open fresh{.started_at = wall()};
                fresh.redrive.topic = std::string(topic);
                fresh.redrive.actor = std::string(actor);
                if (!rows_.empty()) fresh.redrive.up_to = cursor(rows_.back());
                found = redrives_.insert_or_assign(std::string(topic), std::move(fresh)).first;
            } else if (!own) {
                take_back(found->second);
            }
            found->second.owner = std::string(owner);
            found->second.expires = now_ + lease;
            return found->second.redrive;
        });
    }

    Result<std::vector<store::RetryClaim>> next_of_redrive(std::string_view topic, const store::RetryRequest& request,
                                                           const store::RedrivePage& page) override {
        using Claims = std::vector<store::RetryClaim>;
        return call<Claims>("next_of_redrive", [&]() -> Result<Claims> {
            Open& open = redrives_.at(std::string(topic));
            if (!is_of(open, request.owner)) return permanent("not_owner", "somebody else has it");
            open.expires = now_ + request.lease;
            largest_page_ = std::max(largest_page_, page.letters);
            asked_.emplace_back(page.letters, page.bytes);
            Claims claims;
            std::int64_t bytes = 0;
            const auto full = [&] {
                return claims.size() == static_cast<std::size_t>(page.letters) || (bytes > 0 && bytes >= page.bytes);
            };
            for (Row& each : rows_) {
                if (full()) return claims;
                if (!of_topic(each, topic) || !behind(open.redrive, each) || was_tried(open, each)) continue;
                const std::string& origin = each.detail.letter.provenance.original_topic;
                if (std::ranges::find(page.left_out_topics, origin) != page.left_out_topics.end()) continue;
                store::RetryClaim claim = begin(&each, each.detail.letter.id, request);
                if (claim.verdict != store::RetryVerdict::begun) continue;
                open.redrive.taken_over += each.detail.letter.in_doubt ? 1 : 0;
                open.redrive.position = cursor(each);
                bytes += static_cast<std::int64_t>(each.detail.record.value.value_or("").size());
                claims.push_back(std::move(claim));
            }
            if (!full()) open.redrive.position = open.redrive.up_to;
            return claims;
        });
    }

    Result<std::int64_t> end_of_redrive_page(std::string_view topic, std::string_view owner, std::string_view,
                                             std::span<const store::RetryEnd> ends) override {
        return call<std::int64_t>("end_of_redrive_page", [&]() -> Result<std::int64_t> {
            Open& open = redrives_.at(std::string(topic));
            return end_all(owner, ends, is_of(open, owner) ? &open.redrive : nullptr);
        });
    }

    Result<store::Redrive> close_redrive(std::string_view topic, std::string_view owner) override {
        return call<store::Redrive>("close_redrive", [&]() -> Result<store::Redrive> {
            Open& open = redrives_.at(std::string(topic));
            if (!is_of(open, owner)) return permanent("not_owner", "somebody else has it");
            open.redrive.finished = true;
            return open.redrive;
        });
    }

    Result<void> release_redrive(std::string_view topic, std::string_view owner) override {
        return call<void>("release_redrive", [&]() -> Result<void> {
            Open& open = redrives_.at(std::string(topic));
            if (is_of(open, owner)) open.expires = now_;
            return {};
        });
    }

    Result<std::vector<store::Redrive>> abandoned_redrives() override {
        return call<std::vector<store::Redrive>>("abandoned_redrives", [&]() -> Result<std::vector<store::Redrive>> {
            std::vector<store::Redrive> abandoned;
            for (const auto& [topic, open] : redrives_) {
                if (!open.redrive.finished && open.expires <= now_) abandoned.push_back(open.redrive);
            }
            return abandoned;
        });
    }

    Result<std::optional<store::Letter>> mark_dead(std::string_view id, std::string_view) override {
        using Before = std::optional<store::Letter>;
        return call<Before>("mark_dead", [&]() -> Result<Before> {
            Row* found = row(id);
            if (found == nullptr) return std::nullopt;
            store::Letter before = found->detail.letter;
            const bool open =
                before.status == store::LetterStatus::pending || before.status == store::LetterStatus::retrying;
            const bool under_way = found->owner && found->expires > now_;
            if (open && !under_way) found->detail.letter.status = store::LetterStatus::dead;
            return before;
        });
    }
    Result<std::optional<store::Letter>> revive(std::string_view id, std::string_view) override {
        using Before = std::optional<store::Letter>;
        return call<Before>("revive", [&]() -> Result<Before> {
            Row* found = row(id);
            if (found == nullptr) return std::nullopt;
            store::Letter before = found->detail.letter;
            if (before.status != store::LetterStatus::dead || store::is_order(before)) return before;
            found->detail.letter.status = store::LetterStatus::pending;
            found->detail.letter.retry_count = 0;
            return before;
        });
    }
    Result<store::Removal> remove(std::string_view id, std::string_view) override {
        return call<store::Removal>("remove", [&]() -> Result<store::Removal> {
            const Row* found = row(id);
            if (found == nullptr) return store::Removal::unknown;
            if (found->owner && found->expires > now_) return store::Removal::under_way;
            std::erase_if(rows_, [id](const Row& each) { return each.detail.letter.id == id; });
            return store::Removal::removed;
        });
    }
    Result<std::int64_t> purge(store::LetterStatus, Duration, std::int32_t limit, std::string_view) override {
        return call<std::int64_t>("purge", [&]() -> Result<std::int64_t> { return purges(limit); });
    }
    Result<std::int64_t> purge_history(Duration, std::int32_t) override { return 0; }

private:
    struct Open {
        store::Redrive redrive{};
        std::string owner{};
        Duration expires{};
        WallTime started_at{};
    };

    template <typename T, typename Body>
    Result<T> call(const char* name, Body body) {
        int number = 0;
        {
            const std::lock_guard lock(mutex_);
            calls_.emplace_back(name);
            number = static_cast<int>(calls_.size());
        }
        const Fault what = fault(number, name);
        if (what == Fault::retryable) return retryable("db_unreachable", "switched off");
        if (what == Fault::permanent) return permanent("db_error", "switched off for good");
        if (what == Fault::ambiguous_not_done) return ambiguous("db_error", "the answer was lost");
        const std::lock_guard lock(mutex_);
        now_ += std::chrono::microseconds(1);  // so that there is a before and an after
        Result<T> done = body();
        if (what == Fault::ambiguous_done) return ambiguous("db_error", "the answer was lost");
        return done;
    }

    Row* row(std::string_view id) {
        const auto at = std::ranges::find_if(rows_, [id](const Row& each) { return each.detail.letter.id == id; });
        return at == rows_.end() ? nullptr : &*at;
    }
    static store::LetterCursor cursor(const Row& row) { return {row.detail.letter.created_at, row.detail.letter.id}; }
    static bool of_topic(const Row& row, std::string_view topic) {
        return row.detail.letter.topic == topic || row.detail.letter.provenance.original_topic == topic;
    }
    static bool behind(const store::Redrive& redrive, const Row& row) {
        const auto place = [](const store::LetterCursor& at) { return std::tie(at.created_at, at.id); };
        const store::LetterCursor at = cursor(row);
        return place(at) <= place(redrive.up_to) && (!redrive.position || place(*redrive.position) < place(at));
    }

    static bool is_of(const Open& open, std::string_view owner) {
        return open.owner == owner && !open.redrive.finished;
    }
    [[nodiscard]] WallTime wall() const {
        return WallTime(std::chrono::duration_cast<std::chrono::microseconds>(now_));
    }
    /// By this redrive: it may go over it once more, but does not try it again.
    static bool was_tried(const Open& open, const Row& row) {
        const store::Letter& letter = row.detail.letter;
        return !row.owner && letter.status == store::LetterStatus::retrying && letter.last_retry_at &&
               *letter.last_retry_at >= open.started_at;
    }
    [[nodiscard]] store::LetterDetail as_seen(const Row& row) const {
        store::LetterDetail detail = row.detail;
        detail.letter.unfinished = row.owner && row.expires <= now_;
        detail.letter.in_doubt = detail.letter.in_doubt || detail.letter.unfinished;
        return detail;
    }

    store::RetryClaim begin(Row* row, const std::string& id, const store::RetryRequest& request) {
        store::RetryClaim claim{.id = id};
        if (row == nullptr) return claim;
        const store::Letter before = as_seen(*row).letter;
        const std::string refusal = store::retry_refusal(before);
        claim.verdict = store::retry_verdict(before, refusal, row->owner && row->expires > now_);
        claim.reason = store::retry_reason(claim.verdict, before, refusal);
        if (claim.verdict == store::RetryVerdict::begun) {
            store::Letter& letter = row->detail.letter;
            claim.taken_over = before.unfinished;  // it has been counted already
            if (!claim.taken_over) {
                ++letter.retry_count;
                row->retried_before_at = letter.last_retry_at;
            }
            letter.in_doubt = before.in_doubt;
            letter.last_retry_at = wall();
            letter.status = store::LetterStatus::retrying;
            row->owner = request.owner;
            row->expires = now_ + request.lease;
            weigh();
        }
        claim.letter = row->detail;
        return claim;
    }

    void weigh() {
        std::size_t begun = 0;
        std::size_t bytes = 0;
        for (const Row& each : rows_) {
            if (!each.owner) continue;
            ++begun;
            bytes += each.detail.record.value ? each.detail.record.value->size() : 0;
        }
        most_begun_ = std::max(most_begun_, begun);
        most_bytes_ = std::max(most_bytes_, bytes);
    }

    std::int64_t end_all(std::string_view owner, std::span<const store::RetryEnd> ends, store::Redrive* redrive) {
        std::int64_t applied = 0;
        for (const store::RetryEnd& end : ends) {
            Row* ended = row(end.id);
            if (ended == nullptr || ended->owner != owner) continue;
            ++applied;
            ended->owner.reset();
            apply(*ended, end, redrive);
        }
        return applied;
    }

    void apply(Row& row, const store::RetryEnd& end, store::Redrive* redrive) const {
        store::Letter& letter = row.detail.letter;
        const store::RetryEffect effect = store::retry_effect(letter, end.result);
        letter.status = effect.status;
        letter.retry_count = effect.retry_count;
        letter.in_doubt = effect.in_doubt;
        if (!effect.was_tried && !forgets_what_was_not_tried) letter.last_retry_at = row.retried_before_at;
        const bool failed = end.result == store::RetryResult::failed;
        const bool in_doubt = end.result == store::RetryResult::in_doubt;
        if (failed || in_doubt) letter.last_retry_error = end.detail;
        if (effect.status == store::LetterStatus::resolved) letter.last_retry_error.reset();
        if (redrive == nullptr) return;
        redrive->published += effect.status == store::LetterStatus::resolved ? 1 : 0;
        redrive->failed += failed ? 1 : 0;
        redrive->in_doubt += in_doubt ? 1 : 0;
    }

    store::Redrive* redrive_of(std::string_view owner) {
        for (auto& [topic, open] : redrives_) {
            if (is_of(open, owner)) return &open.redrive;
        }
        return nullptr;
    }

    /// What the former owner had begun and not ended comes again, and what it gave back.
    void take_back(Open& open) {
        for (Row& each : rows_) {
            if (each.owner == open.owner) each.expires = now_;
        }
        open.redrive.position.reset();
    }

    mutable std::mutex mutex_;
    Duration now_{};
    std::size_t added_ = 0;
    std::vector<Row> rows_;  // oldest first
    std::map<std::string, Open> redrives_;
    std::vector<std::string> calls_;
    std::vector<store::NewLetter> stored_;
    std::set<std::tuple<std::string, std::int32_t, std::int64_t, std::int64_t>> seen_;
    std::size_t most_begun_ = 0;
    std::size_t most_bytes_ = 0;
    std::int32_t largest_page_ = 0;
    std::vector<std::pair<std::int32_t, std::int64_t>> asked_;
};

}  // namespace deliverd::deadletter
