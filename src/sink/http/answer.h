// What one finished HTTP exchange means for its message. Pure: no libcurl here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "message/broker_answer.h"
#include "message/message.h"

namespace deliverd::sink {

/// How far the exchange came and what stopped it.
enum class Ending {
    answered,      // status, header and body, or as much of the body as we wanted
    broken_off,    // status and header, but the body ended early
    unreadable,    // something came back that is not HTTP
    lost,          // the connection ended without an answer
    timed_out,     // the time was over
    not_accepted,  // the other side's TLS certificate
    failed,        // anything else: could not resolve, connect, …
};

struct Exchange {
    Ending ending = Ending::failed;
    bool request_began = false;  // some of the request may have left this machine
    int status = 0;              // 0: no complete header came
    std::string_view body;
    bool body_cut = false;  // there was more of it than we wanted
    std::string_view retry_after;
    std::string_view problem;  // the library's words for what went wrong
    std::string_view host;     // for people: host and port, no credentials
    Duration timeout{};
};

/// How a whole answer is read (HttpSinkOptions). Both outlive the call.
struct AnswerRules {
    const std::vector<std::string>& receipt_fields;
    const std::optional<ProcessedMatch>& broker;
};

[[nodiscard]] Outcome outcome_of(const Exchange& exchange, std::string_view message_id, const AnswerRules& rules,
                                 WallTime now);

}  // namespace deliverd::sink
