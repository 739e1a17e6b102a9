// A mutex and a condition that clang's thread-safety analysis understands: what a mutex guards is written down as
// GUARDED_BY(mutex_), what a private function expects as REQUIRES(mutex_), and every build with clang checks it
// (-Wthread-safety). GCC ignores the annotations.
//
//     class Counter {
//         void add() {
//             const MutexLock lock(mutex_);
//             ++count_;
//             changed_.notify_one();
//         }
//         bool wait_for_one(Instant deadline) {
//             const MutexLock lock(mutex_);
//             return changed_.wait_until(mutex_, deadline, [this]() REQUIRES(mutex_) { return count_ > 0; });
//         }
//         Mutex mutex_;
//         Condition changed_;
//         int count_ GUARDED_BY(mutex_) = 0;
//     };
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"

#if defined(__clang__)
#define DELIVERD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define DELIVERD_ANNOTATION(...)
#endif

/// This field is read and written only with the mutex held.
#define GUARDED_BY(mutex) DELIVERD_ANNOTATION(guarded_by(mutex))
/// The caller holds the mutex.
#define REQUIRES(...) DELIVERD_ANNOTATION(requires_capability(__VA_ARGS__))
/// The caller does not hold it: this function takes it.
#define EXCLUDES(...) DELIVERD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace deliverd {

class DELIVERD_ANNOTATION(capability("mutex")) Mutex {
public:
    void lock() DELIVERD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
    void unlock() DELIVERD_ANNOTATION(release_capability()) { mutex_.unlock(); }
    [[nodiscard]] bool try_lock() DELIVERD_ANNOTATION(try_acquire_capability(true)) { return mutex_.try_lock(); }

private:
    friend class Condition;
    std::mutex mutex_;
};

/// Holds a mutex until the end of the scope.
class DELIVERD_ANNOTATION(scoped_lockable) MutexLock {
public:
    explicit MutexLock(Mutex& mutex) DELIVERD_ANNOTATION(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
    ~MutexLock() DELIVERD_ANNOTATION(release_capability()) {
        if (held_) mutex_.unlock();
    }
    MutexLock(const MutexLock&) = delete;
    MutexLock& operator=(const MutexLock&) = delete;

    /// For a call in the middle that must not be made with the mutex held.
    void unlock() DELIVERD_ANNOTATION(release_capability()) {
        mutex_.unlock();
        held_ = false;
    }
    void lock() DELIVERD_ANNOTATION(acquire_capability()) {
        mutex_.lock();
        held_ = true;
    }

private:
    Mutex& mutex_;
    bool held_ = true;
};

/// A wait releases the mutex and holds it again when it returns. `ready` is called with it held.
class Condition {
public:
    void notify_one() { condition_.notify_one(); }
    void notify_all() { condition_.notify_all(); }

    /// Whether `ready` was true by `deadline`.
    template <typename Ready>
    bool wait_until(Mutex& mutex, Instant deadline, Ready ready) REQUIRES(mutex) {
        std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
        struct Release {  // the caller still holds the mutex, even when `ready` throws
            std::unique_lock<std::mutex>& lock;
            ~Release() { lock.release(); }
        } const release{lock};
        return condition_.wait_until(lock, deadline, std::move(ready));
    }
    template <typename Ready>
    bool wait_for(Mutex& mutex, Duration patience, Ready ready) REQUIRES(mutex) {
        return wait_until(mutex, std::chrono::steady_clock::now() + patience, std::move(ready));
    }
    template <typename Ready>
    void wait(Mutex& mutex, Ready ready) REQUIRES(mutex) {
        wait_until(mutex, Instant::max(), std::move(ready));
    }

private:
    std::condition_variable condition_;
};

}  // namespace deliverd
