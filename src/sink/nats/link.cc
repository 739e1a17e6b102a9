#include "sink/nats/link.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "sink/nats/nats_message.h"

namespace deliverd::sink {

namespace {

constexpr Duration kNoLimit = std::chrono::hours(24);  // connect_timeout is one

void on_message(natsConnection* connection, natsSubscription*, natsMsg* raw, void* reader) {
    const NatsMessage message(raw);
    static_cast<AnswerReader*>(reader)->on_answer(connection, raw);
}

void on_complete(void* reader) {
    static_cast<AnswerReader*>(reader)->on_end();
}

}  // namespace

Result<std::unique_ptr<Link>> open_link(const NatsSinkOptions& options, std::string_view token, AnswerReader& reader) {
    auto connection = connect_to_nats(options, token, kNoLimit);
    if (!connection) return Failure(connection.error());
    auto link = std::make_unique<Link>();
    link->connection = std::move(*connection);
    link->max_payload = natsConnection_GetMaxPayload(link->connection.get());
    natsInbox* inbox = nullptr;
    natsSubscription* answers = nullptr;
    auto status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        link->inbox = inbox;
        natsInbox_Destroy(inbox);
        status = natsConnection_Subscribe(&answers, link->connection.get(), (link->inbox + ".*").c_str(), &on_message,
                                          &reader);
        link->answers.reset(answers);
    }
    // Their number is bounded by what is under way.
    if (status == NATS_OK) status = natsSubscription_SetPendingLimits(answers, -1, -1);
    // Last: a link without it is not handed out, and nothing was published that could be answered.
    if (status == NATS_OK) status = natsSubscription_SetOnCompleteCB(answers, &on_complete, &reader);
    if (status == NATS_OK) return link;
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("NATS at {}: {}", nats_hosts(options.url), natsStatus_GetText(status)));
}

}  // namespace deliverd::sink
