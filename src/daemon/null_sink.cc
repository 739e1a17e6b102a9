#include "daemon/null_sink.h"

namespace deliverd::daemon {

namespace {

class NullSink final : public sink::Sink {
public:
    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override {
        for (const Message* message : messages) {
            Outcome outcome;
            outcome.kind = OutcomeKind::delivered;
            receiver.on_outcome(*message, std::move(outcome));
        }
    }
    void stop(Duration /*patience*/) override {}
    Result<void> check(Duration /*deadline*/) override { return {}; }
};

}  // namespace

std::unique_ptr<sink::Sink> make_null_sink() {
    return std::make_unique<NullSink>();
}

}  // namespace deliverd::daemon
