// Finds statements anywhere in an answer. For this room only.
#pragma once

#include <optional>
#include <string_view>

#include "message/answer.h"

namespace deliverd {

/// The values of all members `idempotency_key`, repeated members included.
struct KeyMentions {
    bool ours = false;
    bool null = false;
    bool another = false;  // also a value that is not a string
};

struct AnswerScan {
    bool says_processed = false;  // by a field or a text, at any depth
    KeyMentions at_top;           // of the object that the answer is
    KeyMentions anywhere;         // at the top too
};

/// None where `body` is not one JSON value, or one nested deeper than kMaxJsonDepth.
[[nodiscard]] std::optional<AnswerScan> scan_json(std::string_view body, std::string_view our_key,
                                                  const ProcessedMatch& match);

/// Whether `text` contains match.text without a "not" before it.
[[nodiscard]] bool says_processed(std::string_view text, const ProcessedMatch& match);

}  // namespace deliverd
