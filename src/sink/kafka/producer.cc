#include "sink/kafka/producer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include "base/try.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kDelivered = "the sink needs acks=all and an idempotent producer to know what was delivered";
constexpr std::string_view kTimeout = "set the sink's timeout_ms instead";
constexpr std::string_view kTransactions = "the sink does not use transactions";

constexpr std::array kRefused{
    RefusedSetting{"acks", kDelivered},
    RefusedSetting{"request.required.acks", kDelivered},
    RefusedSetting{"enable.idempotence", kDelivered},
    // With it, one batch that fails ends the whole producer.
    RefusedSetting{"enable.gapless.guarantee", "the relay keeps the order, and retries what failed"},
    RefusedSetting{"queuing.strategy", "messages leave in the order they come"},
    RefusedSetting{"message.timeout.ms", kTimeout},
    RefusedSetting{"delivery.timeout.ms", kTimeout},
    RefusedSetting{"delivery.report.only.error", "every message needs its delivery report"},
    RefusedSetting{"transactional.id", kTransactions},
    RefusedSetting{"transaction.timeout.ms", kTransactions},
};

Result<void> check_partitioner(const KafkaSettings& given) {
    for (const auto& [name, value] : given) {
        if (name != "partitioner") continue;
        if (value == "random") {
            return bad_argument(
                "librdkafka's setting 'partitioner' cannot be random: events of one "
                "aggregate would lose their order");
        }
        if (value == "consistent_random") {
            return bad_argument(
                "librdkafka's setting 'partitioner' cannot be consistent_random, which "
                "scatters the empty key; write consistent, which is the same for all others");
        }
    }
    return {};
}

KafkaSettings own_settings(const KafkaSinkOptions& options) {
    const auto within = [](Duration span, Duration least, Duration most) {
        return std::to_string(wait_ms(std::clamp(span, least, most)));
    };
    const Duration timeout = options.timeout;
    const auto linger_ms = std::chrono::duration<double, std::milli>(options.linger).count();
    return {
        {"acks", "all"},
        // Without it a request that librdkafka repeats after a lost answer could store its messages twice, or behind
        // later ones.
        {"enable.idempotence", "true"},
        {"message.timeout.ms", std::to_string(std::chrono::duration_cast<milliseconds>(timeout).count())},
        {"linger.ms", fmt::format("{}", linger_ms)},
        {"compression.type", options.compression},
        // As Java's producers, so that a key has the same partition from every producer; an empty key too.
        {"partitioner", options.null_keys ? "murmur2_random" : "murmur2"},
        // The caller bounds what is under way; this must be above that.
        {"queue.buffering.max.messages", "1000000"},
        // How long an unknown topic may be one that was just created.
        {"topic.metadata.propagation.max.ms", within(timeout / 2, {}, seconds(2))},
        // Shorter than a message's timeout, where that allows it: another broker or a new connection may still be
        // tried.
        {"socket.connection.setup.timeout.ms", within(timeout / 2, seconds(1), seconds(5))},
        {"socket.timeout.ms", within(timeout, seconds(1), seconds(60))},
        {"request.timeout.ms", within(timeout, milliseconds(1), seconds(30))},
    };
}

constexpr int kIdlePollMs = 1000;         // events wake it earlier; the password's file is checked in this interval
constexpr std::size_t kMaxTopics = 1024;  // handles kept; then all are dropped and made again as needed

/// A null value is not the same as an empty one.
void add(rd_kafka_headers_t* headers, std::string_view name, std::optional<std::string_view> value) {
    rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value ? value->data() : nullptr,
                        value ? static_cast<ssize_t>(value->size()) : 0);
}

}  // namespace

Result<Conf> make_conf(const KafkaSinkOptions& options, Batching batching) {
    if (options.timeout < milliseconds(1)) {
        return bad_argument("the kafka sink's timeout must be at least a millisecond");
    }
    TRY_ASSIGN(auto conf, client_conf(RD_KAFKA_PRODUCER, options, own_settings(options), kRefused));
    if (!options.null_keys) TRY(check_partitioner(options.librdkafka));
    // After the settings that were given: a larger batch would bring back the refusals that this producer is for.
    if (batching == Batching::one_each) TRY(set(conf.get(), "batch.num.messages", "1"));
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
    return conf;
}

Result<std::unique_ptr<Producer>> Producer::start(const KafkaSinkOptions& options, Batching batching, Log& log,
                                                  OnReport on_report, OnTrouble on_trouble) {
    TRY_ASSIGN(auto conf, make_conf(options, batching));
    TRY_ASSIGN(const auto kafka, new_client(RD_KAFKA_PRODUCER, std::move(conf), options.librdkafka));
    try {
        return std::unique_ptr<Producer>(
            new Producer(options, log, kafka, std::move(on_report), std::move(on_trouble)));
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start a Kafka producer: {}", error.what()));
    }
}

Producer::Producer(const KafkaSinkOptions& options, Log& log, rd_kafka_t* kafka, OnReport on_report,
                   OnTrouble on_trouble)
    : attributes_(options.attributes),
      on_report_(std::move(on_report)),
      on_trouble_(std::move(on_trouble)),
      secrets_(options.librdkafka),
      log_(log, "sink", options.log_name),
      login_(options.password_file, options.librdkafka, log, "sink", options.log_name),
      kafka_(kafka),
      queue_(rd_kafka_queue_get_main(kafka)) {
    rd_kafka_set_log_queue(kafka, nullptr);  // its log lines become events
    thread_ = std::thread([this] { run(); });
}

void Producer::end() {
    ending_ = true;
    // The thread may sleep in rd_kafka_queue_poll(), which nothing else wakes when there are no events.
    rd_kafka_queue_yield(queue_.get());
    if (thread_.joinable()) thread_.join();
}

rd_kafka_topic_t* Producer::topic_of(const std::string& name) {
    if (const auto found = topics_.find(name); found != topics_.end()) return found->second.get();
    // Topics may come from data, one per aggregate. Messages on their way hold their topic by themselves.
    if (topics_.size() >= kMaxTopics) topics_.clear();
    Topic topic(rd_kafka_topic_new(kafka_.get(), name.c_str(), nullptr));
    return topics_.emplace(name, std::move(topic)).first->second.get();
}

rd_kafka_resp_err_t Producer::produce(const Message& message, void* opaque) {
    Headers headers;
    if (attributes_.format == EventFormat::plain) {
        headers.reset(rd_kafka_headers_new(4 + message.headers.size()));
        each_plain_attribute(message, [&](auto name, auto value) { add(headers.get(), name, value); });
    } else {
        const auto attributes = cloudevents_attributes(message, attributes_.source);
        headers.reset(rd_kafka_headers_new(attributes.size() + 1));
        if (!message.content_type.empty()) add(headers.get(), "content-type", message.content_type);
        for (const auto& [name, value] : attributes) add(headers.get(), "ce_" + name, value);
    }
    return hand_over(message.topic, message.key, message.body, std::move(headers), opaque);
}

rd_kafka_resp_err_t Producer::produce(const Record& record, void* opaque) {
    Headers headers(rd_kafka_headers_new(record.headers.size()));
    for (const auto& header : record.headers) add(headers.get(), header.name, header.value);
    return hand_over(record.topic, record.key, record.value, std::move(headers), opaque);
}

rd_kafka_resp_err_t Producer::hand_over(const std::string& topic, Bytes key, Bytes value, Headers headers,
                                        void* opaque) {
    rd_kafka_topic_t* handle = topic_of(topic);
    if (handle == nullptr) return rd_kafka_last_error();
    // librdkafka only reads the bytes: it copies them. Null is not the same as empty.
    const auto data = [](Bytes bytes) { return bytes ? const_cast<char*>(bytes->data()) : nullptr; };
    const auto size = [](Bytes bytes) { return bytes ? bytes->size() : 0; };
    const rd_kafka_resp_err_t error =
        rd_kafka_producev(kafka_.get(), RD_KAFKA_V_RKT(handle), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_KEY(data(key), size(key)), RD_KAFKA_V_VALUE(data(value), size(value)),
                          RD_KAFKA_V_HEADERS(headers.get()), RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END);
    // A message that was taken owns its headers, a refused one does not.
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return error;
    [[maybe_unused]] const auto* owned_by_message = headers.release();
    return error;
}

std::string Producer::trouble() const {
    const MutexLock lock(trouble_mutex_);
    return trouble_;
}

void Producer::run() {
    while (!ending_) {
        if (auto password = login_.look(kafka_.get(), clock_.now())) secrets_.add(*std::move(password));
        const Handle<rd_kafka_event_t, rd_kafka_event_destroy> event(rd_kafka_queue_poll(queue_.get(), kIdlePollMs));
        switch (rd_kafka_event_type(event.get())) {  // RD_KAFKA_EVENT_NONE where none came
            case RD_KAFKA_EVENT_DR:
                take_reports(event.get());
                break;
            case RD_KAFKA_EVENT_ERROR:
                take_error(event.get());
                break;
            case RD_KAFKA_EVENT_LOG:
                take_log(event.get());
                break;
            default:
                break;
        }
    }
}

void Producer::take_reports(rd_kafka_event_t* event) {
    bool reached = false;
    bool timed_out = false;
    while (const rd_kafka_message_t* report = rd_kafka_event_message_next(event)) {
        reached = reached || report->err == RD_KAFKA_RESP_ERR_NO_ERROR;
        timed_out = timed_out || report->err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT;
        on_report_(*this, *report);
    }
    if (reached) set_reachable(true);
    // A broker that hangs is no error until the socket's timeout: a message's may be the first sign of it.
    if (timed_out) on_trouble_();
}

void Producer::take_error(rd_kafka_event_t* event) {
    const auto error = rd_kafka_event_error(event);
    const char* text = rd_kafka_event_error_string(event);
    if (rd_kafka_event_error_is_fatal(event) != 0) {
        fatal_ = true;
        write(LogLevel::error, "fatal", text);
        return on_trouble_();
    }
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        // Its text only counts brokers. trouble_ keeps the error before it, which says why they are away.
        set_reachable(false);
        write(LogLevel::warn, "brokers", text);
        return on_trouble_();
    }
    {
        const MutexLock lock(trouble_mutex_);
        trouble_ = secrets_.hidden(text, kMaxLogBytes);
    }
    write(LogLevel::warn, rd_kafka_err2name(error), text);
}

void Producer::take_log(rd_kafka_event_t* event) {
    const char* facility = nullptr;
    const char* text = nullptr;
    int level = 0;
    if (rd_kafka_event_log(event, &facility, &text, &level) != 0) return;
    write(log_level(level), facility, text);
}

void Producer::write(LogLevel level, std::string_view facility, std::string_view text) {
    log_.write(level, facility, secrets_.hidden(text, kMaxLogBytes));
}

}  // namespace deliverd::sink
