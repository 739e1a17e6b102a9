#include "sink/kafka/producer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

namespace {

constexpr int kIdlePollMs = 1000;         // events wake it earlier; the password's file is checked in this interval
constexpr std::size_t kMaxTopics = 1024;  // handles kept; then all are dropped and made again as needed
constexpr std::size_t kMaxLogBytes = 400;
constexpr Duration kLongestWait = std::chrono::hours(1);
constexpr int kSyslogWarning = 4;

void add(rd_kafka_headers_t* headers, std::string_view name, std::string_view value) {
    rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                        static_cast<ssize_t>(value.size()));
}

}  // namespace

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

Producer::~Producer() {
    end();
}

void Producer::end() {
    ending_ = true;
    rd_kafka_queue_yield(queue_.get());
    if (thread_.joinable()) thread_.join();
}

int Producer::to_ms(Duration span) {
    const auto bounded = std::clamp(span, Duration::zero(), kLongestWait);
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(bounded).count());
}

rd_kafka_topic_t* Producer::topic_of(const std::string& name) {
    if (const auto found = topics_.find(name); found != topics_.end()) return found->second.get();
    if (topics_.size() >= kMaxTopics) topics_.clear();
    Topic topic(rd_kafka_topic_new(kafka_.get(), name.c_str(), nullptr));
    return topics_.emplace(name, std::move(topic)).first->second.get();
}

Producer::Headers Producer::headers_of(const Message& message, const EventAttributesOptions& options) {
    Headers headers;
    if (options.format == EventFormat::plain) {
        headers.reset(rd_kafka_headers_new(4 + message.headers.size()));
        each_plain_attribute(message,
                             [&](std::string_view name, std::string_view value) { add(headers.get(), name, value); });
        return headers;
    }
    const auto attributes = cloudevents_attributes(message, options.source);
    headers.reset(rd_kafka_headers_new(attributes.size() + 1));
    if (!message.content_type.empty()) add(headers.get(), "content-type", message.content_type);
    for (const auto& [name, value] : attributes) add(headers.get(), "ce_" + name, value);
    return headers;
}

rd_kafka_resp_err_t Producer::produce(const Message& message, void* opaque) {
    return hand_over(message.topic, message.key, message.body, headers_of(message, attributes_), opaque);
}

rd_kafka_resp_err_t Producer::produce(const Record& record, void* opaque) {
    Headers headers(rd_kafka_headers_new(record.headers.size()));
    for (const auto& header : record.headers) {
        if (header.value) {
            add(headers.get(), header.name, *header.value);
        } else {
            rd_kafka_header_add(headers.get(), header.name.data(), static_cast<ssize_t>(header.name.size()), nullptr,
                                0);
        }
    }
    return hand_over(record.topic, record.key, record.value, std::move(headers), opaque);
}

rd_kafka_resp_err_t Producer::hand_over(const std::string& topic, Bytes key, Bytes value, Headers headers,
                                        void* opaque) {
    rd_kafka_topic_t* handle = topic_of(topic);
    if (handle == nullptr) return rd_kafka_last_error();
    rd_kafka_headers_t* given = headers.release();
    // librdkafka only reads the bytes: it copies them. Null is not the same as empty.
    auto* body = value ? const_cast<char*>(value->data()) : nullptr;
    const std::size_t body_size = value ? value->size() : 0;
    const char* name = key ? key->data() : nullptr;
    const std::size_t name_size = key ? key->size() : 0;
    const rd_kafka_resp_err_t error = rd_kafka_producev(
        kafka_.get(), RD_KAFKA_V_RKT(handle), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(name, name_size),
        RD_KAFKA_V_VALUE(body, body_size), RD_KAFKA_V_HEADERS(given), RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) headers.reset(given);  // not taken
    return error;
}

bool Producer::ask(Duration deadline) {
    const rd_kafka_metadata_t* metadata = nullptr;
    const auto error = rd_kafka_metadata(kafka_.get(), 0, nullptr, &metadata, std::max(to_ms(deadline), 1));
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
    rd_kafka_metadata_destroy(metadata);
    return true;
}

std::string Producer::trouble() const {
    const MutexLock lock(trouble_mutex_);
    return trouble_;
}

void Producer::run() {
    while (!ending_) {
        if (auto password = login_.look(kafka_.get(), clock_.now())) secrets_.add(*std::move(password));
        rd_kafka_event_t* event = rd_kafka_queue_poll(queue_.get(), kIdlePollMs);
        if (event == nullptr) continue;
        take(event);
        rd_kafka_event_destroy(event);
    }
}

void Producer::take(rd_kafka_event_t* event) {
    switch (rd_kafka_event_type(event)) {
        case RD_KAFKA_EVENT_DR:
            return take_reports(event);
        case RD_KAFKA_EVENT_ERROR:
            return take_error(event);
        case RD_KAFKA_EVENT_LOG:
            return take_log(event);
        default:
            return;
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
    if (timed_out) on_trouble_();
}

void Producer::take_error(rd_kafka_event_t* event) {
    const auto error = rd_kafka_event_error(event);
    const auto text = secrets_.hidden(rd_kafka_event_error_string(event), kMaxLogBytes);
    if (rd_kafka_event_error_is_fatal(event) != 0) {
        fatal_ = true;
        log_.write(LogLevel::error, "fatal", text);
        return on_trouble_();
    }
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        set_reachable(false);
        log_.write(LogLevel::warn, "brokers", text);
        return on_trouble_();
    }
    {
        const MutexLock lock(trouble_mutex_);
        trouble_ = text;
    }
    log_.write(LogLevel::warn, rd_kafka_err2name(error), text);
}

void Producer::take_log(rd_kafka_event_t* event) {
    const char* facility = nullptr;
    const char* text = nullptr;
    int level = 0;
    if (rd_kafka_event_log(event, &facility, &text, &level) != 0) return;
    log_.write(level <= kSyslogWarning ? LogLevel::warn : LogLevel::debug, facility,
               secrets_.hidden(text, kMaxLogBytes));
}

}  // namespace deliverd::sink
