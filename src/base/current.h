// A value that one thread replaces while others read it.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace deliverd {

/// A reader keeps the version it got until it drops the pointer. Thread-safe; never blocks for long.
template <typename T>
class Current {
public:
    explicit Current(T value) { set(std::move(value)); }

    void set(T value) {
        auto fresh = std::make_shared<const T>(std::move(value));
        const MutexLock lock(mutex_);
        value_ = std::move(fresh);
    }
    [[nodiscard]] std::shared_ptr<const T> get() const {
        const MutexLock lock(mutex_);
        return value_;
    }

private:
    mutable Mutex mutex_;
    std::shared_ptr<const T> value_ GUARDED_BY(mutex_);
};

}  // namespace deliverd
