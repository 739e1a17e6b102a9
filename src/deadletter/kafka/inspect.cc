#include "deadletter/kafka/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/try.h"
#include "deadletter/kafka/consumer.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::deadletter {

namespace {

constexpr std::size_t kMaxReasonBytes = 300;

/// The errors about brokers while one question is asked.
void note_first(rd_kafka_t*, int /*error*/, const char* reason, void* first) {
    auto& said = *static_cast<std::string*>(first);
    if (said.empty()) said = reason;  // later ones only say that all brokers are down
}

/// Fills in the topics that match; their partitions.
std::vector<Place> take_topics(const rd_kafka_metadata_t& metadata, std::string_view pattern, KafkaInspection& found) {
    std::vector<Place> places;
    for (const auto& topic : std::span(metadata.topics, static_cast<std::size_t>(metadata.topic_cnt))) {
        const std::string name = topic.topic;
        // Kafka's own topics, which the consumer leaves out too.
        if (name.starts_with("__") || !matches_pattern(name, pattern)) continue;
        if (topic.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            found.unreadable.push_back(fmt::format("{}: {}", name, rd_kafka_err2str(topic.err)));
            continue;
        }
        found.topics.push_back(name);
        for (int partition = 0; partition < topic.partition_cnt; ++partition) {
            places.push_back({name, partition, RD_KAFKA_OFFSET_INVALID});
        }
    }
    std::ranges::sort(found.topics);
    std::ranges::sort(found.unreadable);
    return places;
}

/// Reads the group's offsets: unlike joining the group, that takes no partition away from a member.
std::string group_problem(rd_kafka_t* kafka, std::span<const Place> places, Duration deadline) {
    const Partitions list = partitions_of(places);
    auto error = rd_kafka_committed(kafka, list.get(), sink::wait_ms(deadline));
    for (const auto& one : entries(*list)) {
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = one.err;
    }
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? std::string() : rd_kafka_err2str(error);
}

}  // namespace

Result<KafkaInspection> inspect_kafka(const RecordSourceOptions& options, Duration deadline) {
    std::string said;  // outlives the client, whose callback writes it
    TRY_ASSIGN(auto conf, make_consumer_conf(options));
    rd_kafka_conf_set_opaque(conf.get(), &said);
    rd_kafka_conf_set_error_cb(conf.get(), &note_first);
    // The answer has the reason; librdkafka's lines would mix with doctor's findings.
    rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
    TRY_ASSIGN(const auto made, sink::new_client(RD_KAFKA_CONSUMER, std::move(conf), options.librdkafka));
    const Consumer kafka(made);
    const rd_kafka_metadata_t* answer = nullptr;
    const auto error = rd_kafka_metadata(kafka.get(), 1, nullptr, &answer, sink::wait_ms(deadline));
    const sink::Metadata metadata(answer);
    rd_kafka_poll(kafka.get(), 0);  // calls note_first() for the errors so far
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        const std::string why = said.empty() ? rd_kafka_err2str(error) : said;
        return retryable("KAFKA_DOWN", fmt::format("no broker of {} answers: {}", options.brokers,
                                                   sink::Secrets(options.librdkafka).hidden(why, kMaxReasonBytes)));
    }
    KafkaInspection found{.brokers = metadata->broker_cnt};
    const auto places = take_topics(*metadata, options.topic_pattern, found);
    if (!places.empty()) found.group_problem = group_problem(kafka.get(), places, deadline);
    return found;
}

}  // namespace deliverd::deadletter
