#include "http/handler_pool.h"

#include <algorithm>
#include <chrono>

namespace deliverd::http {

HandlerPool::HandlerPool(std::size_t threads, std::size_t max_queued) : queue_(max_queued) {
    threads = std::max<std::size_t>(threads, 1);
    threads_.reserve(threads);
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

HandlerPool::~HandlerPool() {
    stop();
}

void HandlerPool::stop() {
    stopping_ = true;
    queue_.close();
    for (auto& thread : threads_) {
        if (thread.joinable()) thread.join();
    }
}

void HandlerPool::work() {
    std::vector<Task> tasks;
    while (true) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        if (queue_.pop_until(tasks, 1, deadline) == 0) {
            if (stopping_) return;
            continue;
        }
        if (!stopping_) tasks.front()();
        tasks.clear();
    }
}

}  // namespace deliverd::http
