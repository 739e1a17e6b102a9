// A value that one thread replaces while others use it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace deliverd {

/// Readers keep the version they got for as long as they hold it. Thread-safe.
template <typename T>
class Current {
public:
    explicit Current(T value) { set(std::move(value)); }

    void set(T value) {
        auto fresh = std::make_shared<const T>(std::move(value));
        const std::lock_guard lock(mutex_);
        value_ = std::move(fresh);
    }
    [[nodiscard]] std::shared_ptr<const T> get() const {
        const std::lock_guard lock(mutex_);
        return value_;
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<const T> value_;
};

}  // namespace deliverd
