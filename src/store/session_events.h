// The event outbox on a store's own connections: one call is one transaction, and with an actor every change leaves a
// line in outbox_audit, written in that transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "deliverd/outbox.h"
#include "deliverd/result.h"

namespace deliverd::store {

/// One line in outbox_audit, of outbox `events`.
struct EventAudit {
    std::int64_t id = 0;  // 0 where the line is about many
    std::string_view reason;
    std::optional<std::string> status_from{};
    std::optional<std::string> status_to{};
    std::optional<std::int32_t> retry_count{};
    std::optional<std::string> last_error{};
    std::optional<std::string> detail{};
    std::string_view actor;
};

/// A borrowed connection inside a transaction. The destructor rolls back what was not committed.
class EventSession {
public:
    virtual ~EventSession() = default;
    virtual deliverd::Outbox& outbox() = 0;
    virtual Result<void> audit(const EventAudit& entry) = 0;
    virtual Result<void> commit() = 0;
};

using OpenEventSession = std::function<Result<std::unique_ptr<EventSession>>()>;

[[nodiscard]] std::unique_ptr<deliverd::Outbox> make_session_events(OpenEventSession open,
                                                                    std::optional<std::string> actor);

}  // namespace deliverd::store
