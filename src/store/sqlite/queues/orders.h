// Order intake on SQLite.
#pragma once

#include "store/orders.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

class SqliteOrders final : public Orders {
public:
    /// `file` outlives it.
    SqliteOrders(File& file, const OrdersOptions& options) : file_(file), options_(options) {}

    Result<std::vector<AcceptAnswer>> accept(std::span<const NewOrder> orders) override;
    Result<std::optional<OrderDetail>> find(std::string_view idempotency_key) override;
    Result<std::vector<Order>> list(const OrderQuery& query) override;

private:
    Result<AcceptAnswer> accept_one(Handle& handle, const NewOrder& order) const;

    File& file_;
    const OrdersOptions options_;
};

/// What the broker said, or nothing, and from when on the ledger may forget it. Inside a transaction.
[[nodiscard]] Result<void> write_ledger(Handle& handle, std::int64_t order_id, Duration ttl,
                                        const std::optional<std::string>& result_digest,
                                        const std::optional<std::string>& result_json);

/// One step of some orders, for the audit; where they stand now is read from their rows.
struct OrderStep {
    std::string_view reason;
    std::optional<std::string> status_from;
    std::optional<std::string> worker;
    std::string_view actor;
};
[[nodiscard]] Result<void> audit_orders(Handle& handle, std::span<const std::int64_t> ids, const OrderStep& step);

}  // namespace deliverd::store::sqlite
