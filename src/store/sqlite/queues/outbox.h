// The memory outbox on SQLite.
#pragma once

#include "store/sqlite/queues/outbox_base.h"

namespace deliverd::store::sqlite {

/// `file` outlives the queue. Dead letters are of `lane`.
[[nodiscard]] std::unique_ptr<RowQueue> make_memory_queue(File& file, std::string lane);

}  // namespace deliverd::store::sqlite
