#include "message/message.h"

#include "base/text.h"

namespace deliverd {

Outcome failed_attempt(OutcomeKind kind, std::string_view code, std::string_view detail) {
    Outcome outcome;
    outcome.kind = kind;
    outcome.code = code;
    outcome.detail = shorten(one_line(detail), kMaxDetailBytes);
    return outcome;
}

Outcome not_attempted(std::string_view code, std::string_view detail) {
    Outcome outcome = failed_attempt(OutcomeKind::retryable, code, detail);
    outcome.not_attempted = true;
    return outcome;
}

}  // namespace deliverd
