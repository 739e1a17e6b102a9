// The threads that run handlers, fed from a bounded queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"

namespace deliverd::http {

class HandlerPool {
public:
    using Task = std::function<void()>;

    /// At least one thread.
    HandlerPool(std::size_t threads, std::size_t max_queued);
    ~HandlerPool();  // stop()
    HandlerPool(const HandlerPool&) = delete;
    HandlerPool& operator=(const HandlerPool&) = delete;

    /// Moves `task` in; false (and `task` untouched) when the queue is full or stopped. Does not block.
    /// A task must not throw. Thread-safe.
    [[nodiscard]] bool try_submit(Task& task) { return queue_.try_push(task); }

    /// Drops what is queued and waits for the tasks that run. From one thread at a time. Idempotent.
    void stop();

private:
    void work();

    BoundedQueue<Task> queue_;
    std::atomic<bool> stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace deliverd::http
