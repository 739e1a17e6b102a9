#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/testing/broker.h"
#include "sink/testing/contract.h"

namespace deliverd::sink {
namespace {

class KafkaContractReceiver final : public ContractReceiver {
public:
    KafkaContractReceiver() : topic_(kafka_.new_topic(4)) {}

    std::unique_ptr<Sink> sink() override { return sink_to(kafka_.brokers(), {}); }
    Message message(std::int64_t id, std::string body) override { return test_event(id, topic_, std::move(body)); }
    std::multiset<std::string> arrived() override {
        std::multiset<std::string> out;
        for (const auto& record : read_topic(kafka_.brokers(), topic_)) out.insert(*record.value);
        return out;
    }
    std::optional<Message> oversized(std::int64_t id) override {
        return test_event(id, topic_, std::string(2UL * 1024 * 1024, 'x'));  // librdkafka's default takes 1 MB
    }

    std::unique_ptr<Sink> unanswered_sink() override {
        slow_topic_ = slow_.new_topic();
        KafkaSinkOptions options;
        options.librdkafka = {{"batch.num.messages", "1"}};  // several requests, of which few can be in flight
        auto sink = sink_to(slow_.brokers(), options);
        EXPECT_EQ(send_one(*sink, test_event(-1, slow_topic_), kContractPatience).kind, OutcomeKind::delivered);
        rd_kafka_mock_broker_set_rtt(slow_.get(), 1, 60'000);  // takes what is sent, and answers too late
        return sink;
    }
    std::vector<Message> unanswered_messages() override {
        std::vector<Message> out;
        for (int id = 0; id < 200; ++id) out.push_back(test_event(id, slow_topic_));
        return out;
    }
    std::size_t most_under_way() override { return 199; }  // librdkafka decides

private:
    std::unique_ptr<Sink> sink_to(const std::string& brokers, KafkaSinkOptions options) {
        options.brokers = brokers;
        options.timeout = kContractPatience;
        auto made = make_kafka_sink(std::move(options), log_);
        if (!made) throw std::runtime_error(made.error().message);
        return std::move(*made);
    }

    NullLog log_;
    const AnyBroker kafka_;
    const MockCluster slow_;
    std::string topic_;
    std::string slow_topic_;
};

INSTANTIATE_TEST_SUITE_P(Kafka, SinkContract, testing::Values([]() -> std::unique_ptr<ContractReceiver> {
                             return std::make_unique<KafkaContractReceiver>();
                         }));

}  // namespace
}  // namespace deliverd::sink
