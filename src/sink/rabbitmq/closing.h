// What a channel that the server closed says about the messages under way on it. Pure code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "message/message.h"
#include "sink/rabbitmq/connection.h"
#include "sink/rabbitmq/window.h"

namespace deliverd::sink {

inline constexpr int kAccessRefused = 403;
inline constexpr int kNotFound = 404;
inline constexpr int kPreconditionFailed = 406;

/// NO_EXCHANGE, ACCESS_REFUSED, PRECONDITION_FAILED, else CHANNEL_CLOSED.
[[nodiscard]] std::string_view code_of_closing(int reply_code);

struct Verdict {
    OutcomeKind kind = OutcomeKind::ambiguous;
    std::string code{};
    std::string detail{};
    bool is_suspect = false;  // it may be the one: to be sent alone next time
};

/// For each of the jobs, which are in the order they were sent. A server closes a channel for one of them without
/// saying which; it has taken none behind that one and may have taken all before. The one is known where it is alone or
/// the server tells its size.
struct UnderWay {
    std::span<const Job> jobs;
    bool last_is_part = false;  // the last one was not sent whole: it is not the one, and not taken
    bool has_more = false;      // others, whose outcome was told already, may be the one
};
[[nodiscard]] std::vector<Verdict> judge_closing(const ChannelClosed& closed, const UnderWay& under_way);

}  // namespace deliverd::sink
