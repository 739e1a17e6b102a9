// Limits records and bytes under way, over all calls of publish().
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::deadletter {

class Window {
public:
    Window(std::size_t records, std::size_t bytes) : max_records_(records), max_bytes_(bytes) {}

    /// Takes room for one record; one that is larger than the whole window waits until it has it alone. False when
    /// there was no room within `patience`, or after stop().
    [[nodiscard]] bool enter(std::size_t bytes, Duration patience) {
        const MutexLock lock(mutex_);
        const auto fits = [&]() REQUIRES(mutex_) {
            return stopped_ || records_ == 0 || (records_ < max_records_ && bytes_ + bytes <= max_bytes_);
        };
        if (!room_.wait_for(mutex_, std::max(patience, Duration::zero()), fits) || stopped_) return false;
        ++records_;
        bytes_ += bytes;
        return true;
    }

    void leave(std::size_t bytes) {
        const MutexLock lock(mutex_);
        ASSERT(records_ > 0 && bytes_ >= bytes);
        --records_;
        bytes_ -= bytes;
        room_.notify_all();
    }

    /// Ends all waits; nobody enters any more. For good.
    void stop() {
        const MutexLock lock(mutex_);
        stopped_ = true;
        room_.notify_all();
    }

private:
    const std::size_t max_records_;
    const std::size_t max_bytes_;
    Mutex mutex_;
    Condition room_;
    std::size_t records_ GUARDED_BY(mutex_) = 0;
    std::size_t bytes_ GUARDED_BY(mutex_) = 0;
    bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace deliverd::deadletter
