// Who may use the API: `auth`, and what `server` says about it.
#pragma once

#include <vector>

#include "app/config.h"

namespace deliverd::app {

[[nodiscard]] api::AuthOptions make_auth(const Values& values, std::vector<Problem>& problems);

}  // namespace deliverd::app
