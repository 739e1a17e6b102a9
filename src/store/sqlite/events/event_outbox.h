// The event outbox on SQLite, for relays. There is one writer at a time, so ids become visible in their order. There
// are no notifications.
#pragma once

#include <memory>

#include "store/events.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives the outbox. Failure: `bad_argument` for a table that cannot be relayed; as any read of the file.
[[nodiscard]] Result<std::unique_ptr<EventOutbox>> open_event_outbox(File& file, const EventTable& table);

}  // namespace deliverd::store::sqlite
