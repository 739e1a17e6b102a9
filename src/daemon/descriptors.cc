#include "daemon/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace deliverd::daemon {

namespace {

/// Database connections, connections to receivers, files, and connections that are just being refused.
constexpr rlim_t kOwnDescriptors = 512;

}  // namespace

void make_room_for_connections(std::size_t connections, Log& log) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t needed = connections + kOwnDescriptors;
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = std::min(needed, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
        ::getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= needed) return;
    log.warn(
        "too few open files are allowed for server.max_connections: raise the limit (ulimit -n) or lower the setting",
        {{"max_connections", connections}, {"needed", needed}, {"allowed", limit.rlim_cur}});
}

}  // namespace deliverd::daemon
