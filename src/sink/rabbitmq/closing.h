// The outcomes of the messages under way on a channel that the server closed. Pure code.
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
    bool is_suspect = false;  // it may be the refused one: send it alone next time
};

/// One verdict per job; jobs are in the order they were sent. A server closes a channel because of one of them without
/// saying which; it has taken none behind that one and may have taken all before it. The refused one is known where it
/// is alone or the server reports its size.
struct UnderWay {
    std::span<const Job> jobs;
    bool last_is_part = false;  // the last one was not sent as a whole: it is neither refused nor taken
    bool has_more = false;      // others, whose outcome was reported already, may be the refused one
};
[[nodiscard]] std::vector<Verdict> judge_closing(const ChannelClosed& closed, const UnderWay& under_way);

}  // namespace deliverd::sink
