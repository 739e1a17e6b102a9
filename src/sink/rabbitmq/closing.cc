#include "sink/rabbitmq/closing.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

namespace deliverd::sink {

namespace {

/// "PRECONDITION_FAILED - message size 2000 is larger than configured max size 1000" → 2000
std::optional<std::uint64_t> refused_size(std::string_view reason) {
    constexpr std::string_view kBefore = "message size ";
    const auto at = reason.find(kBefore);
    if (at == std::string_view::npos || reason.find(" is larger than", at) == std::string_view::npos)
        return std::nullopt;
    const auto number = reason.substr(at + kBefore.size());
    std::uint64_t size = 0;
    const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), size);
    return problem == std::errc() ? std::optional(size) : std::nullopt;
}

/// Only these are about a message; others are about the server.
bool is_about_a_message(int code) {
    return code == kAccessRefused || code == kNotFound || code == kPreconditionFailed;
}

std::string_view advice(int code) {
    switch (code) {
        case kAccessRefused:
            return "; allow the user to write to the exchange";
        case kNotFound:
            return "; create the exchange, or correct the sink's";
        default:
            return "";
    }
}

std::optional<std::size_t> guilty_one(const ChannelClosed& closed, std::span<const Job> whole, bool is_all) {
    if (!is_about_a_message(closed.code)) return std::nullopt;
    if (whole.size() == 1 && is_all) return 0;
    const auto size = refused_size(closed.reason);
    if (!size) return std::nullopt;
    for (std::size_t i = 0; i < whole.size(); ++i) {
        if (whole[i].message->body.size() == *size) return i;
    }
    return std::nullopt;
}

Verdict of_the_guilty(const ChannelClosed& closed) {
    // Another size or other rights are the server's to give, but the same bytes are refused until then.
    const bool never = closed.code == kPreconditionFailed;
    return {never ? OutcomeKind::permanent : OutcomeKind::retryable, std::string(code_of_closing(closed.code)),
            fmt::format("RabbitMQ refused the message: {}{}", closed.reason, advice(closed.code)), false};
}

}  // namespace

std::string_view code_of_closing(int reply_code) {
    switch (reply_code) {
        case kAccessRefused:
            return "ACCESS_REFUSED";
        case kNotFound:
            return "NO_EXCHANGE";
        case kPreconditionFailed:
            return "PRECONDITION_FAILED";
        default:
            return "CHANNEL_CLOSED";
    }
}

std::vector<Verdict> judge_closing(const ChannelClosed& closed, const UnderWay& under_way) {
    const auto jobs = under_way.jobs;
    const auto whole = jobs.first(jobs.size() - (under_way.last_is_part && !jobs.empty() ? 1 : 0));
    const auto guilty = guilty_one(closed, whole, !under_way.has_more);
    const auto text = fmt::format("RabbitMQ closed the channel: {}", closed.reason);
    std::vector<Verdict> verdicts;
    verdicts.reserve(jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const bool is_behind = i >= whole.size() || (guilty && i > *guilty);
        if (guilty && i == *guilty) {
            verdicts.push_back(of_the_guilty(closed));
        } else if (is_behind) {
            verdicts.push_back({OutcomeKind::retryable, "CHANNEL_CLOSED",
                                text + "; this one, sent behind the refused one, was not taken", false});
        } else if (guilty || !is_about_a_message(closed.code)) {
            verdicts.push_back({OutcomeKind::ambiguous, "CHANNEL_CLOSED", text + "; this one may have arrived", false});
        } else {
            verdicts.push_back({OutcomeKind::ambiguous, std::string(code_of_closing(closed.code)),
                                fmt::format("{}{}; this one may have arrived", text, advice(closed.code)), true});
        }
    }
    return verdicts;
}

}  // namespace deliverd::sink
