#include "sink/nats/nats_sink.h"
#include "sink/nats/testing/nats_server.h"
#include "sink/nats/testing/streams.h"
#include "sink/testing/contract.h"

namespace deliverd::sink {
namespace {

class NatsContractReceiver final : public ContractReceiver {
public:
    NatsContractReceiver() { streams_.add(stream_); }
    ~NatsContractReceiver() override { streams_.remove(stream_); }

    std::unique_ptr<Sink> sink() override { return sink_to(shared_nats_url()); }
    Message message(std::int64_t id, std::string body) override {
        return test_event(id, stream_ + ".contract", std::move(body));
    }
    std::multiset<std::string> arrived() override {
        std::multiset<std::string> out;
        for (const auto& message : streams_.all(stream_)) out.insert(message.data);
        return out;
    }
    std::optional<Message> oversized(std::int64_t id) override {
        return message(id, std::string(2UL * 1024 * 1024, 'x'));  // the server's default takes 1 MiB
    }

    std::unique_ptr<Sink> unanswered_sink() override {
        paused_ = std::make_unique<NatsServer>();
        Streams(paused_->url()).add(stream_);
        auto sink = sink_to(paused_->url());
        EXPECT_EQ(send_one(*sink, message(-1, "{}")).kind, OutcomeKind::delivered);
        paused_->pause();
        return sink;
    }
    std::vector<Message> unanswered_messages() override {
        std::vector<Message> out;
        for (int id = 0; id < 10'000; ++id) out.push_back(message(id, "{}"));
        return out;
    }
    std::size_t most_under_way() override { return 4096; }

private:
    std::unique_ptr<Sink> sink_to(const std::string& url) {
        NatsSinkOptions options;
        options.url = url;
        options.timeout = kTestPatience;
        auto made = make_nats_sink(std::move(options), log_);
        if (!made) throw std::runtime_error(made.error().message);
        return std::move(*made);
    }

    NullLog log_;
    Streams streams_{shared_nats_url()};
    const std::string stream_ = fresh_nats_name();
    std::unique_ptr<NatsServer> paused_;
};

INSTANTIATE_TEST_SUITE_P(Nats, SinkContract, testing::Values([]() -> std::unique_ptr<ContractReceiver> {
                             return std::make_unique<NatsContractReceiver>();
                         }));

}  // namespace
}  // namespace deliverd::sink
