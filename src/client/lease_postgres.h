// The lease protocol over any way to run a statement on PostgreSQL: the caller's connection (lease_on) or
// one of the store's.
#pragma once

#include <memory>

#include "client/postgres_call.h"
#include "deliverd/lease.h"

namespace deliverd::client {

[[nodiscard]] std::unique_ptr<Lease> lease_over(std::unique_ptr<PostgresCall> call);

}  // namespace deliverd::client
