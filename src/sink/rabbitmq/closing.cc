#include "sink/rabbitmq/closing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

/// The reply codes that are about a message. Others are about the server.
struct AboutAMessage {
    int code;
    std::string_view name;
    std::string_view advice;
};
constexpr std::array kAboutAMessage{
    AboutAMessage{kAccessRefused, "ACCESS_REFUSED", "; allow the user to write to the exchange"},
    AboutAMessage{kNotFound, "NO_EXCHANGE", "; create the exchange, or correct the sink's"},
    AboutAMessage{kPreconditionFailed, "PRECONDITION_FAILED", ""},
};

const AboutAMessage* about_a_message(int code) {
    const auto* const found = std::ranges::find(kAboutAMessage, code, &AboutAMessage::code);
    return found == kAboutAMessage.end() ? nullptr : found;
}

/// The position of the refused one, if it is certain. A wrong guess would make an innocent message dead.
std::optional<std::size_t> guilty_one(const ChannelClosed& closed, std::span<const Job> whole, bool is_all) {
    if (about_a_message(closed.code) == nullptr) return std::nullopt;
    if (whole.size() == 1 && is_all) return 0;
    const auto size = refused_size(closed.reason);
    if (!size) return std::nullopt;
    // The first of that size: it would have been refused before any other.
    for (std::size_t i = 0; i < whole.size(); ++i) {
        if (whole[i].message->body.size() == *size) return i;
    }
    return std::nullopt;
}

Verdict of_the_guilty(const ChannelClosed& closed) {
    // Another size or other rights are the server's to give, but the same bytes are refused until then.
    const bool never = closed.code == kPreconditionFailed;
    return {never ? OutcomeKind::permanent : OutcomeKind::retryable, std::string(code_of_closing(closed.code)),
            fmt::format("RabbitMQ refused the message: {}{}", closed.reason, about_a_message(closed.code)->advice),
            false};
}

}  // namespace

std::string_view code_of_closing(int reply_code) {
    const auto* const about = about_a_message(reply_code);
    return about == nullptr ? "CHANNEL_CLOSED" : about->name;
}

std::vector<Verdict> judge_closing(const ChannelClosed& closed, const UnderWay& under_way) {
    const auto jobs = under_way.jobs;
    const auto whole = jobs.first(jobs.size() - (under_way.last_is_part && !jobs.empty() ? 1 : 0));
    const auto* const about = about_a_message(closed.code);
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
                                text + "; this message was sent after the refused one and was not accepted", false});
        } else if (guilty || about == nullptr) {
            verdicts.push_back(
                {OutcomeKind::ambiguous, "CHANNEL_CLOSED", text + "; this message may have arrived", false});
        } else {
            verdicts.push_back({OutcomeKind::ambiguous, std::string(about->name),
                                fmt::format("{}{}; this message may have arrived", text, about->advice), true});
        }
    }
    return verdicts;
}

}  // namespace deliverd::sink
