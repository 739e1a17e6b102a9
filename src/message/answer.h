// An HTTP answer, and how it says that an order was processed before.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deliverd {

struct HttpAnswer {
    int status = 0;
    std::string_view body;         // the part that was read
    std::string_view retry_after;  // the header's value; empty when absent
};

/// How a 409 says that the order was processed before: anywhere in its JSON one of `fields` has the value `value` or a
/// string contains `text`; a body that is not JSON contains `text`. Directly after "not", `text` does not count. Case
/// does not matter; an empty `value` or `text` matches nothing.
struct ProcessedMatch {
    std::vector<std::string> fields{"code", "status"};
    std::string value = "already_processed";
    std::string text = "already processed";
};

/// The first of `fields` that is a string or a number at the top level of a JSON object, if any.
[[nodiscard]] std::optional<std::string> find_receipt(std::string_view body, const std::vector<std::string>& fields);

}  // namespace deliverd
