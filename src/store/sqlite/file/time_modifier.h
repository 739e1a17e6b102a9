// Spans of time as SQLite's strftime takes them.
#pragma once

#include <string>

#include "client/decimal.h"

namespace deliverd::store::sqlite {

/// "+60.000 seconds". Back in time: client::lease_modifier().
[[nodiscard]] inline std::string time_ahead(double seconds) {
    return "+" + client::decimal(seconds, 3) + " seconds";
}

}  // namespace deliverd::store::sqlite
