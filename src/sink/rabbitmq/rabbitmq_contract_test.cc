#include "sink/http/testing/fault_server.h"
#include "sink/rabbitmq/rabbitmq_sink.h"
#include "sink/rabbitmq/testing/fake_broker.h"
#include "sink/rabbitmq/testing/sink_fixture.h"
#include "sink/testing/contract.h"

namespace deliverd::sink {
namespace {

class RabbitmqContractReceiver final : public ContractReceiver {
public:
    RabbitmqContractReceiver()
        : mute_([](Peer& peer) {
              FakeBroker broker(peer);
              if (broker.shake_hands()) peer.wait_until_closed();  // confirms nothing
          }) {
        client_.declare_queue(queue_);
    }
    ~RabbitmqContractReceiver() override { client_.delete_queue(queue_); }

    std::unique_ptr<Sink> sink() override { return sink_to(rabbit_url()); }
    Message message(std::int64_t id, std::string body) override { return event(id, queue_, std::move(body)); }
    std::multiset<std::string> arrived() override {
        for (const auto& got : client_.take_all(queue_)) arrived_.insert(got.body);
        return arrived_;
    }
    std::optional<Message> oversized(std::int64_t id) override {
        return message(id, std::string(600UL * 1024, 'x'));  // the tests' server takes 512 KiB
    }

    std::unique_ptr<Sink> unanswered_sink() override {
        return sink_to("amqp://guest:guest@127.0.0.1:" + std::to_string(mute_.port()));
    }
    std::vector<Message> unanswered_messages() override {
        std::vector<Message> out;
        for (int id = 0; id < 100; ++id) out.push_back(message(id, "{}"));
        return out;
    }
    std::size_t most_under_way() override { return 1; }  // the first on a connection goes alone

private:
    std::unique_ptr<Sink> sink_to(std::string url) {
        RabbitmqSinkOptions options;
        options.url = std::move(url);
        options.timeout = kTestPatience;
        auto made = make_rabbitmq_sink(std::move(options), log_);
        if (!made) throw std::runtime_error(made.error().message);
        return std::move(*made);
    }

    NullLog log_;
    FaultServer mute_;
    RabbitClient client_{rabbit_url()};
    const std::string queue_ = fresh_name("contract");
    std::multiset<std::string> arrived_;
};

INSTANTIATE_TEST_SUITE_P(Rabbitmq, SinkContract, testing::Values([]() -> std::unique_ptr<ContractReceiver> {
                             return std::make_unique<RabbitmqContractReceiver>();
                         }));

}  // namespace
}  // namespace deliverd::sink
