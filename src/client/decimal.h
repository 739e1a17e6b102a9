// Numbers as SQL reads them: a point before the fraction, whatever the program's locale says.
#pragma once

#include <string>

namespace deliverd::client {

/// The shortest text that reads back as the same number.
[[nodiscard]] std::string decimal(double value);

/// With exactly `places` digits behind the point, rounded; no exponent.
[[nodiscard]] std::string decimal(double value, int places);

}  // namespace deliverd::client
