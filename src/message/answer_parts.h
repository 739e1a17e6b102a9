// What the two readings of an HTTP answer share (http_answer.h, broker_answer.h). For this room only.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "message/answer.h"
#include "message/message.h"

namespace deliverd {

/// `body` when it is one JSON object; none otherwise, also when it is nested deeper than kMaxJsonDepth.
[[nodiscard]] std::optional<boost::json::object> parse_json_object(std::string_view body);

enum class Conflict {
    processed,  // for our key, or naming none
    doubtful,   // processed, but for another key, or it cannot be read
    unclear,    // speaks of no processing, but names another key or is JSON that cannot be read
    plain,      // anything else
};

/// What a 409 says. Taking a message for delivered that was not would lose it, so every doubt is resolved
/// towards sending again.
[[nodiscard]] Conflict read_conflict(std::string_view body, std::string_view our_key, const ProcessedMatch& match);

/// The outcome by status alone; of a 409 by what `conflict` says.
[[nodiscard]] Outcome classify_status(const HttpAnswer& answer, Conflict conflict, WallTime now);

/// "HTTP 500: the body", one line, fit for Outcome::detail. `remark` stands between the two.
[[nodiscard]] std::string describe_answer(const HttpAnswer& answer, std::string_view remark = "");

[[nodiscard]] std::optional<std::string> find_receipt(const boost::json::object& object,
                                                      const std::vector<std::string>& fields);

}  // namespace deliverd
