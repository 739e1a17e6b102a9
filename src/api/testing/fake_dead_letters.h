// For tests: the port of dead letters in memory, as far as the API itself calls it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/dead_letters.h"

namespace deliverd::api {

/// Thread-safe. Newest first is the order of add(), backwards. While `fail_with` says an error, every call answers it.
/// Retries are the manager's business (DlqActions): their calls are refused here.
class FakeDeadLetters final : public store::DeadLetters {
public:
    void add(store::LetterDetail letter) {
        const std::lock_guard lock(mutex_);
        letters_.push_back(std::move(letter));
    }
    void fail_with(std::optional<Error> failure) {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(failure);
    }
    /// As if a retry of it were under way: nobody may mark it as dead.
    void hold(std::string id) {
        const std::lock_guard lock(mutex_);
        held_ = std::move(id);
    }
    void set_status(std::string_view id, store::LetterStatus status) {
        const std::lock_guard lock(mutex_);
        if (auto* letter = at(id)) letter->letter.status = status;
    }
    [[nodiscard]] std::size_t calls() {
        const std::lock_guard lock(mutex_);
        return calls_;
    }
    [[nodiscard]] store::LetterQuery last_query() {
        const std::lock_guard lock(mutex_);
        return query_;
    }

    Result<store::LetterPage> list(const store::LetterQuery& query) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        query_ = query;
        store::LetterPage page;
        std::int64_t skip = query.offset;
        for (auto it = letters_.rbegin(); it != letters_.rend(); ++it) {
            const store::Letter& letter = it->letter;
            if (query.topic && letter.topic != query.topic && letter.provenance.original_topic != *query.topic)
                continue;
            if (query.status && letter.status != *query.status) continue;
            ++page.total;
            if (skip-- > 0) continue;
            if (page.letters.size() < static_cast<std::size_t>(query.limit)) {
                page.letters.push_back(letter);
            } else {
                page.has_next = true;
            }
        }
        return page;
    }

    Result<std::optional<store::LetterDetail>> find(std::string_view id) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        const auto* letter = at(id);
        return letter == nullptr ? std::nullopt : std::optional(*letter);
    }

    Result<std::vector<store::LetterAudit>> audit(std::string_view id, std::int32_t) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        return audit_[std::string(id)];
    }

    Result<std::vector<store::TopicCounts>> topics() override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        std::map<std::string, store::TopicCounts> found;
        for (const auto& detail : letters_) {
            const store::Letter& letter = detail.letter;
            auto& counts = found[letter.topic.value_or(letter.provenance.original_topic)];
            counts.topic = letter.topic.value_or(letter.provenance.original_topic);
            counts.source = letter.source;
            counts.newest_at = std::max(counts.newest_at, letter.created_at);
            ++(letter.status == store::LetterStatus::pending    ? counts.pending
               : letter.status == store::LetterStatus::retrying ? counts.retrying
               : letter.status == store::LetterStatus::resolved ? counts.resolved
                                                                : counts.dead);
        }
        std::vector<store::TopicCounts> list;
        for (auto& [name, counts] : found) list.push_back(std::move(counts));
        return list;
    }

    Result<std::vector<store::Destination>> destinations(std::string_view topic, std::int32_t) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        std::vector<store::Destination> found;
        for (const auto& detail : letters_) {
            const store::Letter& letter = detail.letter;
            const std::string& to = letter.provenance.original_topic;
            if (letter.topic != topic && to != topic) continue;
            auto at = std::ranges::find(found, to, &store::Destination::topic);
            if (at == found.end()) at = found.insert(at, {to, letter.source});
            ++at->letters;
        }
        std::ranges::stable_sort(found, std::ranges::greater(), &store::Destination::letters);
        return found;
    }

    Result<std::optional<store::Letter>> mark_dead(std::string_view id, std::string_view actor) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        auto* found = at(id);
        if (found == nullptr) return std::nullopt;
        const store::Letter before = found->letter;
        const bool open =
            before.status == store::LetterStatus::pending || before.status == store::LetterStatus::retrying;
        if (open && id != held_) {
            found->letter.status = store::LetterStatus::dead;
            note(id, "dead", actor);
        }
        return before;
    }

    Result<std::optional<store::Letter>> revive(std::string_view id, std::string_view actor) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        auto* found = at(id);
        if (found == nullptr) return std::nullopt;
        const store::Letter before = found->letter;
        if (before.status == store::LetterStatus::dead) {
            found->letter.status = store::LetterStatus::pending;
            note(id, "revived", actor);
        }
        return before;
    }

    Result<store::Removal> remove(std::string_view id, std::string_view actor) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        if (at(id) == nullptr) return store::Removal::unknown;
        if (id == held_) return store::Removal::under_way;
        std::erase_if(letters_, [id](const auto& letter) { return letter.letter.id == id; });
        note(id, "deleted", actor);
        return store::Removal::removed;
    }

    Result<std::int64_t> store(std::span<const store::NewLetter>) override { return refused(); }
    Result<std::vector<store::RetryClaim>> begin_retry(std::span<const std::string>,
                                                       const store::RetryRequest&) override {
        return refused();
    }
    Result<std::int64_t> end_retry(std::string_view, std::string_view, std::span<const store::RetryEnd>) override {
        return refused();
    }
    Result<std::vector<std::string>> return_to_lane(std::string_view, std::string_view,
                                                    std::span<const std::string>) override {
        return refused();
    }
    Result<std::optional<store::Redrive>> open_redrive(std::string_view, std::string_view, std::string_view,
                                                       Duration) override {
        return refused();
    }
    Result<std::vector<store::RetryClaim>> next_of_redrive(std::string_view, const store::RetryRequest&,
                                                           const store::RedrivePage&) override {
        return refused();
    }
    Result<std::int64_t> end_of_redrive_page(std::string_view, std::string_view, std::string_view,
                                             std::span<const store::RetryEnd>) override {
        return refused();
    }
    Result<store::Redrive> close_redrive(std::string_view, std::string_view) override { return refused(); }
    Result<void> release_redrive(std::string_view, std::string_view) override { return refused(); }
    Result<std::vector<store::Redrive>> abandoned_redrives() override { return refused(); }
    /// Those of the status, whatever their age: `purges` has what was asked for.
    Result<std::int64_t> purge(store::LetterStatus status, Duration age, std::int32_t limit,
                               std::string_view actor) override {
        const std::lock_guard lock(mutex_);
        if (auto broken = begin()) return *broken;
        purges.push_back({status, age, limit});
        std::int64_t gone = 0;
        std::erase_if(letters_, [&](const auto& letter) {
            if (letter.letter.status != status || gone == limit) return false;
            note(letter.letter.id, "purged", actor);
            ++gone;
            return true;
        });
        return gone;
    }
    Result<std::int64_t> purge_history(Duration, std::int32_t) override { return refused(); }

    struct Purge {
        store::LetterStatus status;
        Duration age;
        std::int32_t limit;
    };
    std::vector<Purge> purges;

private:
    static Failure refused() { return bad_argument("not for the API to call"); }

    std::optional<Failure> begin() {
        ++calls_;
        return failure_ ? std::optional(Failure(*failure_)) : std::nullopt;
    }
    store::LetterDetail* at(std::string_view id) {
        const auto found = std::ranges::find_if(letters_, [id](const auto& letter) { return letter.letter.id == id; });
        return found == letters_.end() ? nullptr : &*found;
    }
    void note(std::string_view id, const char* action, std::string_view actor) {
        audit_[std::string(id)].push_back({WallTime{}, action, std::string(actor), {}, {}, {}});
    }

    std::mutex mutex_;
    std::optional<Error> failure_;
    std::string held_;
    std::size_t calls_ = 0;
    store::LetterQuery query_;
    std::vector<store::LetterDetail> letters_;
    std::map<std::string, std::vector<store::LetterAudit>> audit_;
};

}  // namespace deliverd::api
