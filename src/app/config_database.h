// Which database the settings name.
#pragma once

#include <functional>
#include <string>

#include "app/config_values.h"
#include "app/database_url.h"
#include "deliverd/result.h"

namespace deliverd::app {

/// From `database.url`, or from `database.host` and its companions, with the password put in. Refused
/// (permanent): both forms at once, a host without a name, a URL that cannot be used.
[[nodiscard]] Result<DatabaseTarget> database_target(const Values& values);

/// Reads the secret files again and answers what libpq takes now; what it was at first when they cannot be
/// read or make no sense. Null when no secret of the database comes from a file. Thread-safe.
[[nodiscard]] std::function<std::string()> conninfo_refresher(const Values& values);

}  // namespace deliverd::app
