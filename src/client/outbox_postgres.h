// The event outbox over any way to run a statement on PostgreSQL: the caller's connection (outbox_on) or one of the
// store's.
#pragma once

#include <memory>

#include "client/postgres_call.h"
#include "deliverd/outbox.h"

namespace deliverd::client {

[[nodiscard]] std::unique_ptr<Outbox> outbox_over(std::unique_ptr<PostgresCall> call);

}  // namespace deliverd::client
