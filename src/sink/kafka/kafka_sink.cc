#include "sink/kafka/kafka_sink.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/try.h"
#include "sink/kafka/publisher.h"
#include "sink/kafka/settings.h"

namespace deliverd::sink {

namespace {

class KafkaSink final : public Sink {
public:
    KafkaSink(KafkaSinkOptions options, Log& log) : publisher_(std::move(options), log) {}

    /// Before anything else.
    Result<void> start() { return publisher_.start(); }

    void send(std::span<const Message* const> messages, OutcomeReceiver& receiver) override {
        publisher_.send(messages, receiver);
    }
    void stop(Duration patience) override { publisher_.stop(patience); }
    Result<void> check(Duration deadline) override { return publisher_.check(deadline); }
    [[nodiscard]] std::string_view name() const override { return "kafka"; }

private:
    Publisher<Message, OutcomeReceiver> publisher_;
};

}  // namespace

Result<void> check_kafka_options(const KafkaSinkOptions& options) {
    TRY_ASSIGN(auto conf, make_conf(options, Batching::many));
    return try_client(RD_KAFKA_PRODUCER, std::move(conf), options.librdkafka);
}

Result<std::unique_ptr<Sink>> make_kafka_sink(KafkaSinkOptions options, Log& log) {
    try {
        auto sink = std::make_unique<KafkaSink>(std::move(options), log);
        TRY(sink->start());
        return sink;
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start the kafka sink: {}", error.what()));
    }
}

}  // namespace deliverd::sink
