// The threads that run handlers, fed from a bounded queue.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"

namespace deliverd::http {

class HandlerPool {
public:
    using Task = std::function<void()>;

    /// At least one thread.
    HandlerPool(std::size_t threads, std::size_t max_queued) : queue_(max_queued) {
        threads_.resize(std::max<std::size_t>(threads, 1));
        for (std::thread& thread : threads_) thread = std::thread([this] { work(); });
    }
    ~HandlerPool() { stop(); }

    /// Moves `task` in; false (and `task` untouched) when the queue is full or stopped. Does not block.
    /// A task must not throw. Thread-safe.
    [[nodiscard]] bool try_submit(Task& task) { return queue_.try_push(task); }

    /// Drops what is queued and waits for the tasks that run. From one thread at a time. Idempotent.
    void stop() {
        stopping_ = true;
        queue_.close();
        for (std::thread& thread : threads_) {
            if (thread.joinable()) thread.join();
        }
    }

private:
    void work() {
        constexpr Duration kWait = std::chrono::minutes(1);  // close() ends it earlier
        std::vector<Task> tasks;
        while (queue_.pop_until(tasks, 1, std::chrono::steady_clock::now() + kWait) > 0 || !stopping_) {
            if (!stopping_ && !tasks.empty()) tasks.front()();
            tasks.clear();
        }
    }

    BoundedQueue<Task> queue_;
    std::atomic<bool> stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace deliverd::http
