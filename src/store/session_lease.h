// The lease protocol on a store's own connections (store/session.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/lease.h"
#include "store/database.h"
#include "store/session.h"

namespace deliverd::store {

/// One line in outbox_audit for each of `ids`, with the row's present status, count and last_error.
struct LeaseAudit {
    std::vector<std::int64_t> ids{};
    std::string_view reason{};
    std::optional<std::string> status_from{};
    std::optional<std::string> worker{};
    std::string_view actor{};
};

using LeaseSession = Session<Lease, LeaseAudit>;

/// `max_payload_bytes` is the configured limit; a caller may ask for a smaller one.
[[nodiscard]] std::unique_ptr<Lease> make_session_lease(Sessions<Lease, LeaseAudit>::Open open,
                                                        std::optional<std::string> actor,
                                                        std::int64_t max_payload_bytes);

/// Database::enqueue_memories on one session.
[[nodiscard]] Result<std::vector<std::int64_t>> enqueue_in_session(LeaseSession& session,
                                                                   std::span<const NewMemory> memories,
                                                                   std::int64_t max_payload_bytes);

}  // namespace deliverd::store
