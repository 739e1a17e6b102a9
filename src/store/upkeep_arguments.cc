#include "store/upkeep_arguments.h"

#include <string>

#include "base/text.h"

namespace deliverd::store {

bool is_storable(std::string_view text) {
    return text.find('\0') == std::string_view::npos && !find_invalid_utf8(text);
}

Result<void> check_upkeep_name(std::string_view argument, std::string_view name) {
    const std::string subject(argument);
    if (name.empty()) return bad_argument(subject + " is empty: it needs a name");
    if (!is_storable(name)) {
        return bad_argument(subject + " is not text that a database can hold: valid UTF-8 without NUL");
    }
    return {};
}

// A negative age would reach into the future and delete everything; a negative lease would be over before it began.
Result<void> check_upkeep_span(std::string_view argument, Duration span) {
    if (span >= Duration::zero()) return {};
    return bad_argument(std::string(argument) + " is negative: it must be 0 or longer");
}

Result<void> check_upkeep_limit(std::int32_t limit) {
    if (limit >= 1) return {};
    return bad_argument("limit is " + std::to_string(limit) + ": use at least 1");
}

}  // namespace deliverd::store
