// The event outbox on SQLite, for relays: one writer at a time, so that there is nothing to hold back, and nobody who
// could notify.
#pragma once

#include "store/events.h"
#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives the outbox. Failure: `bad_argument` for names that cannot be; as any look at the file.
[[nodiscard]] Result<std::unique_ptr<EventOutbox>> open_event_outbox(File& file, const EventTable& table);

}  // namespace deliverd::store::sqlite
