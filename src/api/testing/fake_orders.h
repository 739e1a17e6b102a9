// For tests: the orders port in memory.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/orders.h"

namespace deliverd::api {

/// Thread-safe. While `fail_with` says an error, every call answers it.
class FakeOrders final : public store::Orders {
public:
    Result<std::vector<store::AcceptAnswer>> accept(std::span<const store::NewOrder> orders) override {
        const std::lock_guard lock(mutex_);
        ++calls_;
        if (failure_) return Failure(*failure_);
        std::vector<store::AcceptAnswer> answers;
        for (const auto& order : orders) answers.push_back(accept_one(order));
        return answers;
    }

    Result<std::optional<store::OrderDetail>> find(std::string_view idempotency_key) override {
        const std::lock_guard lock(mutex_);
        ++calls_;
        if (failure_) return Failure(*failure_);
        const auto found = rows_.find(std::string(idempotency_key));
        if (found == rows_.end()) return std::nullopt;
        return store::OrderDetail{found->second, {}};
    }

    Result<std::vector<store::Order>> list(const store::OrderQuery&) override { return {}; }

    void fail_with(std::optional<Error> failure) {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(failure);
    }
    void set_result(const std::string& key, std::string result) {
        const std::lock_guard lock(mutex_);
        rows_.at(key).status = "sent";
        rows_.at(key).result_json = std::move(result);
    }
    [[nodiscard]] std::size_t calls() {
        const std::lock_guard lock(mutex_);
        return calls_;
    }
    [[nodiscard]] std::vector<store::NewOrder> accepted() {
        const std::lock_guard lock(mutex_);
        return accepted_;
    }

private:
    store::AcceptAnswer accept_one(const store::NewOrder& order) {
        store::Order row;
        row.id = static_cast<std::int64_t>(rows_.size()) + 1;
        row.idempotency_key = order.idempotency_key;
        row.request_json = order.request_json;
        row.request_digest = order.request_digest;
        row.trace_id = order.trace_id;
        row.status = "queued";
        const auto [found, fresh] = rows_.try_emplace(order.idempotency_key, row);
        if (fresh) accepted_.push_back(order);
        if (fresh) return {store::AcceptKind::fresh, row};
        const bool same = found->second.request_digest == order.request_digest;
        return {same ? store::AcceptKind::known : store::AcceptKind::conflict, found->second};
    }

    std::mutex mutex_;
    std::optional<Error> failure_;
    std::size_t calls_ = 0;
    std::map<std::string, store::Order> rows_;
    std::vector<store::NewOrder> accepted_;
};

}  // namespace deliverd::api
