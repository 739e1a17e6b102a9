#include "client/sql_values.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace deliverd::client {

std::string decimal(double value) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

// SQLite's times have milliseconds.
std::string time_ago(double seconds) {
    return fmt::format("-{:.3f} seconds", seconds);
}

std::string time_ahead(double seconds) {
    return fmt::format("+{:.3f} seconds", seconds);
}

}  // namespace deliverd::client
