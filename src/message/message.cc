#include "message/message.h"

#include "base/text.h"

namespace deliverd {

Outcome failed_attempt(OutcomeKind kind, std::string_view code, std::string_view detail) {
    return {.kind = kind, .code = std::string(code), .detail = shorten(one_line(detail), kMaxDetailBytes)};
}

Outcome not_attempted(std::string_view code, std::string_view detail) {
    Outcome outcome = failed_attempt(OutcomeKind::retryable, code, detail);
    outcome.not_attempted = true;
    return outcome;
}

}  // namespace deliverd
