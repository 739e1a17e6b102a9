// The shared part of http_answer.h and broker_answer.h. For this room only.
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

/// `body` if it is one JSON object; none otherwise, also when it is nested deeper than kMaxJsonDepth.
[[nodiscard]] std::optional<boost::json::object> parse_json_object(std::string_view body);

enum class Conflict {
    processed,  // for our key, or naming none
    doubtful,   // processed, but for another key, or it cannot be read
    unclear,    // does not mention processing, but names another key or is JSON that cannot be read
    plain,      // anything else
};

/// Reads a 409. A message that is wrongly taken as delivered is lost, so every doubt leads to another attempt.
[[nodiscard]] Conflict read_conflict(std::string_view body, std::string_view our_key, const ProcessedMatch& match);

/// The outcome by status alone; for a 409, by `conflict`.
[[nodiscard]] Outcome classify_status(const HttpAnswer& answer, Conflict conflict, WallTime now);

/// "HTTP 500REMARK: the body" as one line for Outcome::detail.
[[nodiscard]] std::string describe_answer(const HttpAnswer& answer, std::string_view remark = "");

[[nodiscard]] std::optional<std::string> find_receipt(const boost::json::object& object,
                                                      const std::vector<std::string>& fields);

}  // namespace deliverd
