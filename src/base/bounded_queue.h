// A queue between threads that cannot grow without limit and can be closed.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace deliverd {

/// Any number of producers and consumers. After close() nothing more goes in; what is in still comes out.
template <typename T>
class BoundedQueue {
public:
    explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

    /// Moves `value` in; false (and `value` untouched) when full or closed. Does not block.
    bool try_push(T& value) {
        {
            const std::lock_guard lock(mutex_);
            if (closed_ || items_.size() >= capacity_) return false;
            items_.push_back(std::move(value));
        }
        not_empty_.notify_one();
        return true;
    }

    /// Moves in as many from the beginning of [first, last) as there is room for, all at once: nobody sees only some
    /// of them. Answers how many; 0 when closed. Does not block.
    template <typename Iterator>
    std::size_t try_push_some(const Iterator& first, const Iterator& last) {
        std::size_t count = 0;
        {
            const std::lock_guard lock(mutex_);
            if (closed_) return 0;
            count = std::min(capacity_ - items_.size(), static_cast<std::size_t>(std::distance(first, last)));
            const auto end = std::next(first, static_cast<std::ptrdiff_t>(count));
            items_.insert(items_.end(), std::make_move_iterator(first), std::make_move_iterator(end));
        }
        if (count > 0) not_empty_.notify_all();
        return count;
    }

    /// Waits for room until `deadline`; false (and `value` untouched) when there was none or it is closed.
    bool push_until(T& value, std::chrono::steady_clock::time_point deadline) {
        {
            std::unique_lock lock(mutex_);
            not_full_.wait_until(lock, deadline, [this] { return closed_ || items_.size() < capacity_; });
            if (closed_ || items_.size() >= capacity_) return false;
            items_.push_back(std::move(value));
        }
        not_empty_.notify_one();
        return true;
    }

    /// Appends up to `max` items to `out`; answers how many. Does not block.
    std::size_t try_pop(std::vector<T>& out, std::size_t max) {
        const std::lock_guard lock(mutex_);
        return take(out, max);
    }

    /// Waits for at least one item until `deadline`; 0 when there was none or it is closed and empty.
    std::size_t pop_until(std::vector<T>& out, std::size_t max, std::chrono::steady_clock::time_point deadline) {
        std::unique_lock lock(mutex_);
        not_empty_.wait_until(lock, deadline, [this] { return closed_ || !items_.empty(); });
        return take(out, max);
    }

    /// Wakes everyone who waits. Idempotent.
    void close() {
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
        }
        not_empty_.notify_all();
        not_full_.notify_all();
    }

    [[nodiscard]] bool closed() const {
        const std::lock_guard lock(mutex_);
        return closed_;
    }
    [[nodiscard]] std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return items_.size();
    }
    [[nodiscard]] std::size_t capacity() const { return capacity_; }

private:
    std::size_t take(std::vector<T>& out, std::size_t max) {
        const std::size_t count = std::min(max, items_.size());
        const auto end = items_.begin() + static_cast<std::ptrdiff_t>(count);
        out.insert(out.end(), std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
        items_.erase(items_.begin(), end);
        if (count > 0) not_full_.notify_all();
        return count;
    }

    const std::size_t capacity_;
    mutable std::mutex mutex_;
    std::condition_variable not_empty_;
    std::condition_variable not_full_;
    std::deque<T> items_;
    bool closed_ = false;
};

}  // namespace deliverd
