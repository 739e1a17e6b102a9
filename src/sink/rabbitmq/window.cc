#include "sink/rabbitmq/window.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace deliverd::sink {

void ConfirmWindow::add(const Job& job, Instant deadline) {
    entries_.push_back({job, deadline});
    ++live_;
}

bool ConfirmWindow::mark_returned(std::string_view message_id) {
    const auto matches = [&](const Entry& entry) {
        return entry.job.message != nullptr && !entry.returned && entry.job.message->message_id == message_id;
    };
    // Returns come in the order of the messages, so the search begins behind the last one found: thousands of
    // unroutable messages would otherwise be searched through from the beginning, each for each.
    const auto hint = entries_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(
                                             std::max(return_hint_, first_tag_) - first_tag_, entries_.size()));
    auto found = std::find_if(hint, entries_.end(), matches);
    if (found == entries_.end()) {
        found = std::find_if(entries_.begin(), hint, matches);
        if (found == hint) return false;
    }
    found->returned = true;
    return_hint_ = first_tag_ + static_cast<std::uint64_t>(found - entries_.begin()) + 1;
    return true;
}

void ConfirmWindow::settle_one(Entry& entry, const Settle& settle) {
    if (entry.job.message == nullptr) return;
    ASSERT(live_ > 0);
    const Job job = std::exchange(entry.job, {});
    --live_;
    settle(job, entry.returned);
}

void ConfirmWindow::drop_settled() {
    // An expired job's tag stays until its own confirm comes, or one for all up to it.
    while (!entries_.empty() && entries_.front().job.message == nullptr &&
           entries_.front().deadline == Instant::max()) {
        entries_.pop_front();
        ++first_tag_;
    }
    expired_before_ = std::max(expired_before_, first_tag_);
}

bool ConfirmWindow::settle(std::uint64_t tag, bool multiple, const Settle& settle) {
    const std::uint64_t next_tag = first_tag_ + entries_.size();
    if (multiple && tag == 0) tag = next_tag - 1;
    if (tag == 0 || tag >= next_tag) return false;
    if (tag < first_tag_) return true;
    const std::uint64_t from = multiple ? first_tag_ : tag;
    for (std::uint64_t each = from; each <= tag; ++each) {
        auto& entry = entries_[each - first_tag_];
        settle_one(entry, settle);
        entry.deadline = Instant::max();  // answered; drop_settled() sees by this that it did not expire
    }
    drop_settled();
    return true;
}

void ConfirmWindow::expire(Instant now, const std::function<void(const Job&)>& expired) {
    // Deadlines are in the order of the tags: the first that has not passed ends the search.
    for (; expired_before_ < first_tag_ + entries_.size(); ++expired_before_) {
        auto& entry = entries_[expired_before_ - first_tag_];
        if (entry.job.message == nullptr) continue;
        if (entry.deadline > now) break;
        settle_one(entry, [&](const Job& job, bool) { expired(job); });
    }
}

void ConfirmWindow::take_all(const std::function<void(const Job&)>& taken) {
    for (auto& entry : entries_) settle_one(entry, [&](const Job& job, bool) { taken(job); });
    first_tag_ += entries_.size();
    entries_.clear();
    expired_before_ = first_tag_;
}

std::optional<Instant> ConfirmWindow::next_deadline() const {
    for (std::uint64_t tag = expired_before_; tag < first_tag_ + entries_.size(); ++tag) {
        const auto& entry = entries_[tag - first_tag_];
        if (entry.job.message != nullptr) return entry.deadline;
    }
    return std::nullopt;
}

}  // namespace deliverd::sink
