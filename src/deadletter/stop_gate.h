// Lets calls in until it is closed, and knows when the last one has left.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::deadletter {

/// Thread-safe.
class StopGate {
public:
    /// One call. It was let in when this converts to true.
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
        const MutexLock lock(mutex_);
        return closed_;
    }

    /// Blocks for `span`, or until the gate is closed; false when it is.
    bool wait(Duration span) {
        const MutexLock lock(mutex_);
        return !changed_.wait_for(mutex_, span, [this]() REQUIRES(mutex_) { return closed_; });
    }

    /// Lets no further call in and waits for those inside; false when some are left after `deadline`.
    bool close(Duration deadline) {
        const MutexLock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
        return changed_.wait_for(mutex_, deadline, [this]() REQUIRES(mutex_) { return inside_ == 0; });
    }

private:
    bool enter() {
        const MutexLock lock(mutex_);
        if (!closed_) ++inside_;
        return !closed_;
    }
    void leave() {
        const MutexLock lock(mutex_);
        --inside_;
        ASSERT(inside_ >= 0);
        changed_.notify_all();
    }

    mutable Mutex mutex_;
    Condition changed_;
    std::int64_t inside_ GUARDED_BY(mutex_) = 0;
    bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace deliverd::deadletter
