// A queue between threads that cannot grow without limit and can be closed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd {

/// Any number of producers and consumers. After close() nothing more goes in; what is in still comes out. Thread-safe;
/// only pop_until() blocks.
template <typename T>
class BoundedQueue {
public:
    explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

    /// Moves `value` in; false (and `value` untouched) when full or closed.
    bool try_push(T& value) { return try_push_some(&value, &value + 1) == 1; }

    /// Moves in as many from the beginning of [first, last) as there is room for, all at once: no consumer sees only
    /// some of them. Answers how many; 0 when closed.
    template <typename Iterator>
    std::size_t try_push_some(const Iterator& first, const Iterator& last) {
        std::size_t count = 0;
        {
            const MutexLock lock(mutex_);
            if (closed_) return 0;
            count = std::min(capacity_ - items_.size(), static_cast<std::size_t>(std::distance(first, last)));
            const auto end = std::next(first, static_cast<std::ptrdiff_t>(count));
            items_.insert(items_.end(), std::make_move_iterator(first), std::make_move_iterator(end));
        }
        if (count == 1) not_empty_.notify_one();
        if (count > 1) not_empty_.notify_all();
        return count;
    }

    /// Appends up to `max` items to `out`; answers how many.
    std::size_t try_pop(std::vector<T>& out, std::size_t max) {
        const MutexLock lock(mutex_);
        return take(out, max);
    }

    /// Waits for at least one item until `deadline`; 0 when there was none or it is closed and empty.
    std::size_t pop_until(std::vector<T>& out, std::size_t max, Instant deadline) {
        const MutexLock lock(mutex_);
        not_empty_.wait_until(mutex_, deadline, [this]() REQUIRES(mutex_) { return closed_ || !items_.empty(); });
        return take(out, max);
    }

    /// Wakes everyone who waits. Idempotent.
    void close() {
        {
            const MutexLock lock(mutex_);
            closed_ = true;
        }
        not_empty_.notify_all();
    }

    [[nodiscard]] bool closed() const {
        const MutexLock lock(mutex_);
        return closed_;
    }
    [[nodiscard]] std::size_t size() const {
        const MutexLock lock(mutex_);
        return items_.size();
    }
    [[nodiscard]] std::size_t capacity() const { return capacity_; }

private:
    std::size_t take(std::vector<T>& out, std::size_t max) REQUIRES(mutex_) {
        ASSERT(items_.size() <= capacity_);
        const std::size_t count = std::min(max, items_.size());
        const auto end = items_.begin() + static_cast<std::ptrdiff_t>(count);
        out.insert(out.end(), std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
        items_.erase(items_.begin(), end);
        return count;
    }

    const std::size_t capacity_;
    mutable Mutex mutex_;
    Condition not_empty_;
    std::deque<T> items_ GUARDED_BY(mutex_);
    bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace deliverd
