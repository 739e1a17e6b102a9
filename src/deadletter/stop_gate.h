// Lets calls in until it is closed, and knows when the last one is out.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace deliverd::deadletter {

/// Thread-safe.
class StopGate {
public:
    /// One call. It is in when it converts to true.
    class Pass {
    public:
        explicit Pass(StopGate& gate) : gate_(gate), in_(gate.enter()) {}
        ~Pass() {
            if (in_) gate_.leave();
        }
        Pass(const Pass&) = delete;
        Pass& operator=(const Pass&) = delete;
        explicit operator bool() const { return in_; }

    private:
        StopGate& gate_;
        const bool in_;
    };

    [[nodiscard]] bool closed() const {
        const std::lock_guard lock(mutex_);
        return closed_;
    }

    /// Waits so long, or until it is closed; false when it is.
    bool wait(Duration span) {
        std::unique_lock lock(mutex_);
        return !changed_.wait_for(lock, span, [this] { return closed_; });
    }

    /// Lets nobody in any more and waits for those inside; false when some are left after `deadline`.
    bool close(Duration deadline) {
        std::unique_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
        return changed_.wait_for(lock, deadline, [this] { return inside_ == 0; });
    }

private:
    bool enter() {
        const std::lock_guard lock(mutex_);
        if (!closed_) ++inside_;
        return !closed_;
    }
    void leave() {
        const std::lock_guard lock(mutex_);
        --inside_;
        changed_.notify_all();
    }

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::int64_t inside_ = 0;
    bool closed_ = false;
};

}  // namespace deliverd::deadletter
