#include "relay/settle_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace deliverd::relay {

namespace {

constexpr Duration kFirstRetryWait = std::chrono::milliseconds(10);
constexpr Duration kLongestRetryWait = std::chrono::seconds(5);
constexpr Duration kLongestLockWait = std::chrono::seconds(1);

Duration wait_after(std::int32_t tries, Random& random, Duration most = kLongestRetryWait) {
    const Duration longest = std::min(kFirstRetryWait * (1 << std::clamp(tries - 1, 0, 10)), most);
    return from_seconds(to_seconds(longest) * random.between(0.75, 1.0));
}

bool time_has_come(const std::deque<SettleItem>& items, Instant now) {
    return !items.empty() && now >= items.front().retry_at;
}

}  // namespace

std::size_t SettleQueue::drop_shard(std::int32_t shard) {
    const auto of_shard = [&](const SettleItem& item) { return item.settlement.lease.shard == shard; };
    const auto among = [&](std::size_t first) {
        const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(first);
        return static_cast<std::size_t>(std::count_if(waiting_.begin(), end, of_shard));
    };
    again_ -= among(again_);
    one_by_one_ -= among(one_by_one_);
    return std::erase_if(waiting_, of_shard) + std::erase_if(alone_, of_shard) + std::erase_if(locked_, of_shard);
}

bool SettleQueue::due(Instant now, bool idle) const {
    if (under_way() || now < next_try_) return false;
    if (time_has_come(alone_, now) || time_has_come(locked_, now)) return true;
    if (waiting_.empty()) return false;
    return idle || waiting_.size() >= options_.batch || again_ > 0 || one_by_one_ > 0 ||
           now - waiting_.front().queued_at >= options_.linger;
}

Instant SettleQueue::due_at() const {
    if (under_way()) return Instant::max();
    Instant at = alone_.empty() ? Instant::max() : alone_.front().retry_at;
    if (!locked_.empty()) at = std::min(at, locked_.front().retry_at);
    if (!waiting_.empty()) at = std::min(at, waiting_.front().queued_at + options_.linger);
    return at == Instant::max() ? at : std::max(at, next_try_);
}

void SettleQueue::take_batch(Instant now) {
    if (again_ == 0 && time_has_come(alone_, now)) {
        batch_.push_back(std::move(alone_.front()));
        alone_.pop_front();
        return;
    }
    while (again_ == 0 && time_has_come(locked_, now) && batch_.size() < options_.most) {
        batch_.push_back(std::move(locked_.front()));
        locked_.pop_front();
    }
    if (!batch_.empty()) return;
    const std::size_t most = one_by_one_ > 0 ? 1 : again_ > 0 ? again_ : options_.most;
    const std::size_t count = std::min(most, waiting_.size());
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    batch_.assign(std::move_iterator(waiting_.begin()), std::move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    again_ -= std::min(again_, count);
    one_by_one_ -= std::min(one_by_one_, count);
}

const std::vector<store::EventSettlement>& SettleQueue::begin(Instant now) {
    request_.clear();
    if (under_way() || now < next_try_) return request_;
    take_batch(now);
    request_.reserve(batch_.size());
    for (SettleItem& item : batch_) request_.push_back(std::move(item.settlement));
    return request_;
}

void SettleQueue::take_back() {
    for (std::size_t i = 0; i < request_.size(); ++i) batch_[i].settlement = std::move(request_[i]);
    request_.clear();
}

SettleQueue::Ended SettleQueue::end(const Error* error, Instant now, Random& random) {
    take_back();
    Ended ended;
    if (error == nullptr) {
        failed_calls_ = 0;
        refused_in_a_row_ = 0;
        ended.answered = std::exchange(batch_, {});
        return ended;
    }
    const bool refused = error->error_class == ErrorClass::permanent;
    for (SettleItem& item : batch_) {
        if (item.tries++ == 0) item.first_try = now;
        item.in_doubt = item.in_doubt || error->error_class == ErrorClass::ambiguous;
    }
    if (refused) {
        failed_calls_ = 0;  // it did answer
        ++refused_in_a_row_;
    } else {
        refused_in_a_row_ = 0;
        next_try_ = now + wait_after(++failed_calls_, random);
    }
    const bool alone = refused && batch_.size() == 1;
    try_again(ended, alone, now, random);
    return ended;
}

bool SettleQueue::keep_locked(SettleItem& item, Instant now, Random& random) {
    if (item.tries++ == 0) item.first_try = now;
    if (now - item.first_try >= options_.patience) return false;
    item.settlement.met_lock = true;
    item.retry_at = now + wait_after(item.tries, random, kLongestLockWait);
    locked_.push_back(std::move(item));
    return true;
}

void SettleQueue::try_again(Ended& ended, bool alone, Instant now, Random& random) {
    std::vector<SettleItem> batch = std::exchange(batch_, {});
    if (now - batch.front().first_try >= options_.patience) {
        ended.given_up = std::move(batch);
        return;
    }
    if (alone) {
        batch.front().retry_at = now + wait_after(batch.front().tries, random);
        alone_.push_back(std::move(batch.front()));
        return;
    }
    waiting_.insert(waiting_.begin(), std::move_iterator(batch.begin()), std::move_iterator(batch.end()));
    if (refused_in_a_row_ > 0 || one_by_one_ > 0) {
        one_by_one_ += batch.size();
    } else {
        again_ = batch.size();
    }
}

std::vector<SettleItem> SettleQueue::take_all() {
    take_back();
    std::vector<SettleItem> items = std::exchange(batch_, {});
    std::move(waiting_.begin(), waiting_.end(), std::back_inserter(items));
    std::move(alone_.begin(), alone_.end(), std::back_inserter(items));
    std::move(locked_.begin(), locked_.end(), std::back_inserter(items));
    waiting_.clear();
    alone_.clear();
    locked_.clear();
    again_ = one_by_one_ = 0;
    return items;
}

}  // namespace deliverd::relay
