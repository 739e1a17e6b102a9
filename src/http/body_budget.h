// Bounds the memory that the bodies of all requests take.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace deliverd::http {

/// Shared by everything that holds a body. Thread-safe.
class BodyBudget {
public:
    explicit BodyBudget(std::size_t most) : most_(most) {}

    [[nodiscard]] bool take(std::size_t bytes);

    /// Call it after the body is freed. After a flood, the last call also returns free memory to the system, which
    /// malloc might otherwise keep for ever.
    void give_back(std::size_t bytes);

private:
    const std::size_t most_;
    std::atomic<std::size_t> used_ = 0;  // never more than most_
    std::atomic<bool> flooded_ = false;
};

/// One body's share of the budget. The destructor gives it back.
class BodyShare {
public:
    explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
    BodyShare(const BodyShare&) = delete;
    BodyShare& operator=(const BodyShare&) = delete;
    ~BodyShare() { clear(); }

    /// Takes enough for a body of `bytes`; false if the budget has too little left.
    [[nodiscard]] bool grow_to(std::size_t bytes) {
        if (bytes <= bytes_) return true;
        if (!budget_->take(bytes - bytes_)) return false;
        bytes_ = bytes;
        return true;
    }
    /// Moves the share to the body's next holder. This object can grow again for the next body.
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
