#include "sink/nats/link.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "sink/nats/nats_message.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

constexpr Duration kNoLimit = std::chrono::hours(24);  // connect_timeout is one

/// Held by everything of a connection that may still call: the reader hears of the end when nothing does.
class Listener {
public:
    explicit Listener(AnswerReader& reader) : reader_(&reader) {}
    ~Listener() {
        if (reader_ != nullptr) reader_->on_end();
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    [[nodiscard]] AnswerReader& reader() const { return *reader_; }
    /// Nothing was published, and nobody hears of this connection. While someone else holds it too.
    void forget_reader() { reader_ = nullptr; }

private:
    AnswerReader* reader_;
};
using Held = std::shared_ptr<Listener>;

void on_message(natsConnection* connection, natsSubscription*, natsMsg* raw, void* held) {
    const NatsMessage message(raw);
    (*static_cast<Held*>(held))->reader().on_answer(connection, raw);
}

void on_complete(void* held) {
    delete static_cast<Held*>(held);
}

void on_error(natsConnection*, natsSubscription*, natsStatus status, void* held) {
    natsStatus last = NATS_OK;
    const char* said = status == NATS_NOT_PERMITTED ? nats_GetLastError(&last) : nullptr;
    const std::string_view subject = said == nullptr ? std::string_view() : refused_subject(said);
    if (!subject.empty()) (*static_cast<Held*>(held))->reader().on_refusal(subject);
}

void on_closed(natsConnection*, void* held) {
    delete static_cast<Held*>(held);
}

}  // namespace

std::string_view refused_subject(std::string_view complaint) {
    constexpr std::string_view kBefore = "Permissions Violation for Publish to \"";
    const auto at = complaint.find(kBefore);
    if (at == std::string_view::npos) return {};
    const auto rest = complaint.substr(at + kBefore.size());
    const auto end = rest.rfind('"');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

Result<std::unique_ptr<Link>> open_link(const NatsSinkOptions& options, std::string_view token, AnswerReader& reader) {
    const auto listener = std::make_shared<Listener>(reader);
    Held* const for_events = std::make_unique<Held>(listener).release();  // on_closed() deletes it
    auto connection = connect_to_nats(options, token, kNoLimit,
                                      {.on_error = &on_error, .on_closed = &on_closed, .closure = for_events});
    if (!connection) {
        listener->forget_reader();
        on_closed(nullptr, for_events);  // libnats calls it only for a connection that was made
        return Failure(connection.error());
    }
    auto link = std::make_unique<Link>();
    link->connection = std::move(*connection);
    link->max_payload = natsConnection_GetMaxPayload(link->connection.get());
    Held* const for_answers = std::make_unique<Held>(listener).release();  // on_complete() deletes it
    natsInbox* inbox = nullptr;
    natsSubscription* answers = nullptr;
    auto status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        link->inbox = inbox;
        natsInbox_Destroy(inbox);
        status = natsConnection_Subscribe(&answers, link->connection.get(), (link->inbox + ".*").c_str(), &on_message,
                                          for_answers);
        link->answers.reset(answers);
    }
    // Their number is bounded by what is under way.
    if (status == NATS_OK) status = natsSubscription_SetPendingLimits(answers, -1, -1);
    // Last: a link without it is not handed out, and nothing was published that could be answered.
    if (status == NATS_OK) status = natsSubscription_SetOnCompleteCB(answers, &on_complete, for_answers);
    if (status == NATS_OK) return link;
    listener->forget_reader();
    link.reset();
    on_complete(for_answers);
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("NATS at {}: {}", nats_hosts(options.url), natsStatus_GetText(status)));
}

}  // namespace deliverd::sink
