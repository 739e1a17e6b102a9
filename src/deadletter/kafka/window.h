// How much may be under way at once: records and bytes, counted over all who publish.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "base/clock.h"

namespace deliverd::deadletter {

class Window {
public:
    Window(std::size_t records, std::size_t bytes) : max_records_(records), max_bytes_(bytes) {}

    /// Takes room for one record; what is larger than all the room waits until it has it alone. False when there was
    /// none within `patience`, or after stop(). Blocks so long at most.
    [[nodiscard]] bool enter(std::size_t bytes, Duration patience) {
        std::unique_lock lock(mutex_);
        const auto fits = [&] {
            return stopped_ || records_ == 0 || (records_ < max_records_ && bytes_ + bytes <= max_bytes_);
        };
        if (!room_.wait_for(lock, std::max(patience, Duration::zero()), fits) || stopped_) return false;
        ++records_;
        bytes_ += bytes;
        return true;
    }

    void leave(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        --records_;
        bytes_ -= bytes;
        room_.notify_all();
    }

    /// Nobody waits any more, and nobody enters. For good.
    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        room_.notify_all();
    }

private:
    const std::size_t max_records_;
    const std::size_t max_bytes_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::size_t records_ = 0;
    std::size_t bytes_ = 0;
    bool stopped_ = false;
};

}  // namespace deliverd::deadletter
