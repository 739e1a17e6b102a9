// The lease protocol on a store's own connections: one call is one transaction, and with an actor every
// change leaves a line in outbox_audit, written in that transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/lease.h"
#include "deliverd/result.h"
#include "store/database.h"

namespace deliverd::store {

/// One line in outbox_audit for each of `ids`, with the row's present status, count and last_error.
struct LeaseAudit {
    std::span<const std::int64_t> ids;
    std::string_view reason;
    std::optional<std::string_view> status_from;
    std::optional<std::string_view> worker;
    std::string_view actor;
};

/// A borrowed connection inside a transaction. The destructor rolls back what was not committed.
class LeaseSession {
public:
    virtual ~LeaseSession() = default;
    virtual Lease& lease() = 0;
    virtual Result<void> audit(const LeaseAudit& entry) = 0;
    virtual Result<void> commit() = 0;
};

using OpenSession = std::function<Result<std::unique_ptr<LeaseSession>>()>;

/// `max_payload_bytes` is the configured limit; a caller's own, smaller one still counts.
[[nodiscard]] std::unique_ptr<Lease> make_session_lease(OpenSession open, std::optional<std::string> actor,
                                                        std::int64_t max_payload_bytes);

/// Database::enqueue_memories on one session.
[[nodiscard]] Result<std::vector<std::int64_t>> enqueue_in_session(LeaseSession& session,
                                                                   std::span<const NewMemory> memories,
                                                                   std::int64_t max_payload_bytes);

}  // namespace deliverd::store
