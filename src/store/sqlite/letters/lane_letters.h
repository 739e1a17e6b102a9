// Letters of rows that a lane gave up on. All inside the transaction that settles them.
#pragma once

#include <string_view>

#include "store/dead_letters.h"
#include "store/events.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// Of a row of an event table that is dead now.
[[nodiscard]] Result<void> write_event_letter(Handle& handle, const EventTable& table, std::string_view worker_id,
                                              const EventSettlement& settlement);

/// Puts the row of a letter back to what is to be sent, due at once. False: it is gone or no longer dead, or its outbox
/// takes none back.
[[nodiscard]] Result<bool> return_row(Handle& handle, const LaneRow& row, std::string_view actor);

}  // namespace deliverd::store::sqlite
