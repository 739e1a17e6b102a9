// How many files and sockets this process may have open.
#pragma once

#include <cstddef>

#include "base/log.h"

namespace deliverd::daemon {

/// Raises this process's soft limit of open descriptors so that `connections` fit beside what the program itself has
/// open, as far as the hard limit allows; warns with both numbers when that is not far enough. Never lowers it.
void make_room_for_connections(std::size_t connections, Log& log);

}  // namespace deliverd::daemon
