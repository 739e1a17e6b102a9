// How values are written as text for SQL, whatever the program's locale is.
#pragma once

#include <string>

#include "base/clock.h"

namespace deliverd::client {

/// The shortest text that reads back as the same number, with a point before the fraction.
[[nodiscard]] std::string decimal(double value);

/// "-60.000 seconds" and "+60.000 seconds": SQLite's time modifiers.
[[nodiscard]] std::string time_ago(double seconds);
[[nodiscard]] std::string time_ahead(double seconds);
[[nodiscard]] inline std::string time_ago(Duration span) {
    return time_ago(to_seconds(span));
}
[[nodiscard]] inline std::string time_ahead(Duration span) {
    return time_ahead(to_seconds(span));
}

/// "1,2,3" between `open` and `close`: "[…]" is JSON, for SQLite's json_each; "{…}" is PostgreSQL's array.
template <typename Numbers>
[[nodiscard]] std::string number_list(char open, const Numbers& numbers, char close) {
    std::string text(1, open);
    for (const auto number : numbers) {
        if (text.size() > 1) text.push_back(',');
        text += std::to_string(number);
    }
    text.push_back(close);
    return text;
}
template <typename Numbers>
[[nodiscard]] std::string json_ids(const Numbers& ids) {
    return number_list('[', ids, ']');
}

}  // namespace deliverd::client
