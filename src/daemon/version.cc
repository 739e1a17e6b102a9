#include "daemon/version.h"

namespace deliverd::daemon {

std::string_view version() {
    return DELIVERD_VERSION;
}

}  // namespace deliverd::daemon
