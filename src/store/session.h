// A store's own connection on which a person or program uses one of the public protocols: one call is one transaction.
// With an actor, every change leaves a line in outbox_audit, written in that transaction.
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
#include "deliverd/outbox.h"
#include "deliverd/result.h"
#include "store/database.h"

namespace deliverd::store {

/// A borrowed connection inside a transaction, which the functions share. Destroying all of it rolls back what was not
/// committed.
template <typename Protocol, typename Audit>
struct Session {
    std::function<Result<void>(const Audit& entry)> audit;
    std::function<Result<void>()> commit;
    std::unique_ptr<Protocol> protocol;  // last: it uses the connection, so it ends before the transaction
};

/// A session for each call.
template <typename Protocol, typename Audit>
using OpenSession = std::function<Result<Session<Protocol, Audit>>()>;

/// One line in outbox_audit, of outbox `events`.
struct EventAudit {
    std::int64_t id = 0;  // 0 if the line is about several events
    std::string_view reason{};
    std::optional<std::string> status_from{};
    std::optional<std::string> status_to{};
    std::optional<std::int32_t> retry_count{};
    std::optional<std::string> last_error{};
    std::optional<std::string> detail{};
    std::string_view actor{};
};

/// One line in outbox_audit for each of `ids`, with the row's present status, count and last_error.
struct LeaseAudit {
    std::vector<std::int64_t> ids{};
    std::string_view reason{};
    std::optional<std::string> status_from{};
    std::optional<std::string> worker{};
    std::string_view actor{};
};

using EventSession = Session<deliverd::Outbox, EventAudit>;
using LeaseSession = Session<Lease, LeaseAudit>;

[[nodiscard]] std::unique_ptr<deliverd::Outbox> make_session_events(OpenSession<deliverd::Outbox, EventAudit> open,
                                                                    std::optional<std::string> actor);

/// `max_payload_bytes` is the configured limit; a caller may ask for a smaller one.
[[nodiscard]] std::unique_ptr<Lease> make_session_lease(OpenSession<Lease, LeaseAudit> open,
                                                        std::optional<std::string> actor,
                                                        std::int64_t max_payload_bytes);

/// Database::enqueue_memories on one session.
[[nodiscard]] Result<std::vector<std::int64_t>> enqueue_in_session(LeaseSession& session,
                                                                   std::span<const NewMemory> memories,
                                                                   std::int64_t max_payload_bytes);

}  // namespace deliverd::store
