// How much memory the bodies of all requests may take.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace deliverd::http {

/// Shared by all that hold a body. Thread-safe.
class BodyBudget {
public:
    explicit BodyBudget(std::size_t most) : most_(most) {}

    [[nodiscard]] bool take(std::size_t bytes);

    /// The body is freed already. After a flood the last one also gives the process's free memory back to the system,
    /// which malloc by itself may keep for ever.
    void give_back(std::size_t bytes);

private:
    const std::size_t most_;
    std::atomic<std::size_t> used_ = 0;  // never more than most_
    std::atomic<bool> flooded_ = false;
};

/// What one body has of the budget; given back with it.
class BodyShare {
public:
    explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
    BodyShare(const BodyShare&) = delete;
    BodyShare& operator=(const BodyShare&) = delete;
    ~BodyShare() { clear(); }

    /// For a body of so many bytes; false when the budget has not that much left.
    [[nodiscard]] bool grow_to(std::size_t bytes) {
        if (bytes <= bytes_) return true;
        if (!budget_->take(bytes - bytes_)) return false;
        bytes_ = bytes;
        return true;
    }
    /// All of it, for who holds the body from now on. This one can grow for the next body.
    [[nodiscard]] BodyShare hand_over() { return BodyShare(budget_, std::exchange(bytes_, 0)); }
    void clear() {
        if (bytes_ > 0) budget_->give_back(std::exchange(bytes_, 0));
    }

private:
    BodyShare(std::shared_ptr<BodyBudget> budget, std::size_t bytes) : budget_(std::move(budget)), bytes_(bytes) {}

    std::shared_ptr<BodyBudget> budget_;
    std::size_t bytes_ = 0;
};

}  // namespace deliverd::http
