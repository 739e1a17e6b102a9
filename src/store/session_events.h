// The event outbox on a store's own connections (store/session.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "deliverd/outbox.h"
#include "store/session.h"

namespace deliverd::store {

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

using EventSession = Session<deliverd::Outbox, EventAudit>;

[[nodiscard]] std::unique_ptr<deliverd::Outbox> make_session_events(Sessions<deliverd::Outbox, EventAudit>::Open open,
                                                                    std::optional<std::string> actor);

}  // namespace deliverd::store
