// A record's headers as the JSON that both databases keep: an array of {"name", "value_base64"} in their order, with
// null for a null value and "name_base64" in place of a name that is not UTF-8. And its timestamp's type as text.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "message/record.h"

namespace deliverd::store {

[[nodiscard]] std::string record_headers_json(std::span<const RecordHeader> headers);

/// None for what record_headers_json() does not write: a row changed by hand.
[[nodiscard]] std::optional<std::vector<RecordHeader>> parse_record_headers(std::string_view json);

/// none | created | appended. Any other text is none.
[[nodiscard]] std::string_view record_time_name(RecordTime type);
[[nodiscard]] RecordTime record_time(std::string_view name);

}  // namespace deliverd::store
