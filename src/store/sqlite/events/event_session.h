// The event outbox for people, on the file's writing connection, in a transaction of its own.
#pragma once

#include "store/session_events.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives the session.
[[nodiscard]] Result<std::unique_ptr<EventSession>> open_event_session(File& file);

}  // namespace deliverd::store::sqlite
