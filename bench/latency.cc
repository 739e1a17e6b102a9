// From commit to consumer: eight connections commit single events at a steady rate, and one consumer records when each
// arrives. All run in this process and use one clock, so that measuring takes little CPU. An event's time begins when
// its writer knows that it is committed. Prints one line of JSON. With `--produce` the writers send the event to Kafka
// themselves right after their commit: the dual write that loses events, and the time that broker and consumer need.
//
//     bench_latency DATABASE_URL BROKERS TOPIC RATE WARM_UP_SECONDS SECONDS [--produce]
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kConnections = 8;
constexpr int kAggregates = 1000;
constexpr std::chrono::seconds kArrivalDeadline{60};  // after the last commit
constexpr int kAnswerMilliseconds = 10'000;

struct Run {
    std::string database;
    std::string brokers;
    std::string topic;
    int rate = 0;
    int warm_up_seconds = 0;
    int seconds = 0;
    bool produce = false;

    [[nodiscard]] int events() const { return rate * (warm_up_seconds + seconds) / kConnections * kConnections; }
};

/// When each event was committed and when it arrived, in nanoseconds of the clock; 0: not yet.
struct Times {
    explicit Times(int events)
        : committed(static_cast<std::size_t>(events)), arrived(static_cast<std::size_t>(events)) {}
    std::vector<std::atomic<std::int64_t>> committed;
    std::vector<std::atomic<std::int64_t>> arrived;
};

std::int64_t now() {
    return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class Kafka {
public:
    Kafka(rd_kafka_type_t type, const std::vector<std::pair<const char*, std::string>>& settings) {
        char reason[512];
        rd_kafka_conf_t* conf = rd_kafka_conf_new();
        for (const auto& [name, value] : settings) {
            if (rd_kafka_conf_set(conf, name, value.c_str(), reason, sizeof reason) != RD_KAFKA_CONF_OK) {
                throw std::runtime_error(reason);
            }
        }
        handle_ = rd_kafka_new(type, conf, reason, sizeof reason);
        if (!handle_) throw std::runtime_error(reason);
    }
    Kafka(const Kafka&) = delete;
    Kafka& operator=(const Kafka&) = delete;
    ~Kafka() { rd_kafka_destroy(handle_); }
    [[nodiscard]] rd_kafka_t* get() const { return handle_; }

private:
    rd_kafka_t* handle_ = nullptr;
};

class Writer {
public:
    Writer(const Run& run, int number, Kafka* producer, Times& times)
        : run_(run),
          number_(number),
          producer_(producer),
          times_(times),
          connection_(PQconnectdb(run.database.c_str())) {
        check(PQprepare(connection_, "insert",
                        "INSERT INTO outbox (aggregate_id, event_type, payload) VALUES ($1, 'placed', $2::jsonb)", 2,
                        nullptr));
    }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    ~Writer() { PQfinish(connection_); }

    /// Never skips an event: if it is too slow, it falls behind.
    void write(Clock::time_point begin) {
        const std::chrono::nanoseconds every(1'000'000'000LL / run_.rate);
        for (int event = number_; event < run_.events(); event += kConnections) {
            std::this_thread::sleep_until(begin + event * every);
            const std::string aggregate = "order-" + std::to_string(event % kAggregates);
            const std::string payload =
                R"({"n": )" + std::to_string(event) + R"(, "text": ")" + std::string(170, 'x') + R"("})";
            const char* const values[] = {aggregate.c_str(), payload.c_str()};
            check(PQexecPrepared(connection_, "insert", 2, values, nullptr, nullptr, 0));
            times_.committed[static_cast<std::size_t>(event)] = now();
            if (producer_) produce(aggregate, payload);
        }
    }

private:
    void check(PGresult* result) {
        if (PQresultStatus(result) != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(connection_));
        PQclear(result);
    }
    void produce(const std::string& aggregate, const std::string& payload) {
        const rd_kafka_resp_err_t error = rd_kafka_producev(
            producer_->get(), RD_KAFKA_V_TOPIC(run_.topic.c_str()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
            RD_KAFKA_V_KEY(aggregate.data(), aggregate.size()),
            RD_KAFKA_V_VALUE(const_cast<char*>(payload.data()), payload.size()), RD_KAFKA_V_END);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2str(error));
        rd_kafka_poll(producer_->get(), 0);
    }

    const Run& run_;
    const int number_;
    Kafka* const producer_;
    Times& times_;
    PGconn* const connection_;
};

/// All partitions of the topic from their beginning.
class Reader {
public:
    explicit Reader(const Run& run)
        : consumer_(RD_KAFKA_CONSUMER, {{"bootstrap.servers", run.brokers},
                                        {"group.id", "bench"},
                                        {"enable.auto.commit", "false"},
                                        {"auto.offset.reset", "earliest"},
                                        {"fetch.wait.max.ms", "100"}}) {
        rd_kafka_poll_set_consumer(consumer_.get());
        rd_kafka_topic_t* topic = rd_kafka_topic_new(consumer_.get(), run.topic.c_str(), nullptr);
        const rd_kafka_metadata_t* metadata = nullptr;
        const rd_kafka_resp_err_t error = rd_kafka_metadata(consumer_.get(), 0, topic, &metadata, kAnswerMilliseconds);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) throw std::runtime_error(rd_kafka_err2str(error));
        rd_kafka_topic_partition_list_t* all = rd_kafka_topic_partition_list_new(8);
        for (int number = 0; number < metadata->topics[0].partition_cnt; ++number) {
            rd_kafka_topic_partition_list_add(all, run.topic.c_str(), number)->offset = 0;
        }
        rd_kafka_assign(consumer_.get(), all);
        rd_kafka_topic_partition_list_destroy(all);
        rd_kafka_metadata_destroy(metadata);
        rd_kafka_topic_destroy(topic);
    }
    ~Reader() { rd_kafka_consumer_close(consumer_.get()); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    /// Reads until all have arrived or `last_look` has passed. An event that the relay sent twice counts once.
    void read(Times& times, std::atomic<Clock::time_point>& last_look) {
        std::size_t missing = times.arrived.size();
        while (missing > 0 && Clock::now() < last_look.load()) {
            rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer_.get(), 100);
            const std::int64_t at = now();
            if (!message) continue;
            if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
                const std::string value(static_cast<const char*>(message->payload), message->len);
                const auto event = std::stoul(value.substr(value.find("\"n\":") + 4));
                if (times.arrived.at(event).exchange(at) == 0) --missing;
            }
            rd_kafka_message_destroy(message);
        }
    }

private:
    Kafka consumer_;
};

void print(const Run& run, const Times& times) {
    const std::int64_t begin = times.committed[0] + run.warm_up_seconds * 1'000'000'000LL;
    std::vector<double> took;
    std::int64_t last = begin;
    for (std::size_t event = 0; event < times.committed.size(); ++event) {
        if (times.committed[event] < begin) continue;
        last = std::max(last, times.committed[event].load());
        if (times.arrived[event] == 0) throw std::runtime_error("event " + std::to_string(event) + " did not arrive");
        took.push_back(static_cast<double>(times.arrived[event] - times.committed[event]) / 1e6);
    }
    std::sort(took.begin(), took.end());
    const auto at = [&](double share) {
        return took.at(std::min(took.size() - 1, static_cast<std::size_t>(static_cast<double>(took.size()) * share)));
    };
    const double seconds = static_cast<double>(last - begin) / 1e9;
    std::printf(R"({"rate_wanted": %d, "rate": %.0f, "events": %zu, "seconds": %.1f, "p50_ms": %.2f, "p95_ms": %.2f, )"
                R"("p99_ms": %.2f, "max_ms": %.1f})"
                "\n",
                run.rate, static_cast<double>(took.size()) / seconds, took.size(), seconds, at(0.5), at(0.95), at(0.99),
                took.back());
}

void measure(const Run& run) {
    Times times(run.events());
    Reader reader(run);
    std::unique_ptr<Kafka> producer;
    if (run.produce) {
        producer = std::make_unique<Kafka>(
            RD_KAFKA_PRODUCER,
            std::vector<std::pair<const char*, std::string>>{
                {"bootstrap.servers", run.brokers}, {"linger.ms", "0"}, {"enable.idempotence", "true"}});
    }
    std::atomic<Clock::time_point> last_look = Clock::time_point::max();
    std::thread reading([&] { reader.read(times, last_look); });
    std::vector<std::unique_ptr<Writer>> writers;
    for (int number = 0; number < kConnections; ++number) {
        writers.push_back(std::make_unique<Writer>(run, number, producer.get(), times));
    }
    const Clock::time_point begin = Clock::now() + std::chrono::milliseconds(100);
    std::vector<std::thread> threads;
    threads.reserve(writers.size());
    for (const auto& writer : writers) threads.emplace_back([&, w = writer.get()] { w->write(begin); });
    for (std::thread& thread : threads) thread.join();
    last_look = Clock::now() + kArrivalDeadline;
    if (producer) rd_kafka_flush(producer->get(), kAnswerMilliseconds);
    reading.join();
    print(run, times);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 7 && count != 8) {
        std::fprintf(stderr,
                     "usage: bench_latency DATABASE_URL BROKERS TOPIC RATE WARM_UP_SECONDS SECONDS [--produce]\n");
        return 2;
    }
    const Run run{.database = arguments[1],
                  .brokers = arguments[2],
                  .topic = arguments[3],
                  .rate = std::atoi(arguments[4]),
                  .warm_up_seconds = std::atoi(arguments[5]),
                  .seconds = std::atoi(arguments[6]),
                  .produce = count == 8 && std::strcmp(arguments[7], "--produce") == 0};
    if (run.rate <= 0 || run.seconds <= 0 || run.warm_up_seconds < 0 || (count == 8 && !run.produce)) {
        std::fprintf(stderr, "bench_latency: the rate and the seconds must be above 0\n");
        return 2;
    }
    try {
        measure(run);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_latency: %s\n", error.what());
        return 1;
    }
    return 0;
}
