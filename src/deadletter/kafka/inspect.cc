#include "deadletter/kafka/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/try.h"
#include "deadletter/kafka/consumer.h"
#include "deadletter/kafka/consumer_settings.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::deadletter {

namespace {

constexpr std::size_t kMaxReasonBytes = 300;

struct ClientDeleter {
    // It never joined the group.
    void operator()(rd_kafka_t* kafka) const { rd_kafka_destroy_flags(kafka, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE); }
};

struct MetadataDeleter {
    void operator()(const rd_kafka_metadata_t* metadata) const { rd_kafka_metadata_destroy(metadata); }
};
using Metadata = std::unique_ptr<const rd_kafka_metadata_t, MetadataDeleter>;

int deadline_ms(Duration span) {
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(span).count());
}

/// One run; one thread.
class Inspector {
public:
    Inspector(const RecordSourceOptions& options, Duration deadline)
        : options_(options), secrets_(options.librdkafka), deadline_(deadline) {}

    Result<KafkaInspection> run() {
        TRY_ASSIGN(auto conf, make_consumer_conf(options_));
        rd_kafka_conf_set_opaque(conf.get(), this);
        rd_kafka_conf_set_error_cb(conf.get(), &Inspector::on_error);
        rd_kafka_conf_set_log_cb(conf.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
        TRY_ASSIGN(const auto made, sink::new_client(RD_KAFKA_CONSUMER, std::move(conf), options_.librdkafka));
        const std::unique_ptr<rd_kafka_t, ClientDeleter> kafka(made);
        const rd_kafka_metadata_t* answer = nullptr;
        const auto error = rd_kafka_metadata(kafka.get(), 1, nullptr, &answer, deadline_ms(deadline_));
        const Metadata metadata(answer);
        rd_kafka_poll(kafka.get(), 0);  // errors about the brokers so far
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return no_answer(error);
        take_topics(std::span(metadata->topics, static_cast<std::size_t>(metadata->topic_cnt)));
        found_.brokers = metadata->broker_cnt;
        std::ranges::sort(found_.topics);
        std::ranges::sort(found_.unreadable);
        if (!places_.empty()) ask_the_group(kafka.get());
        return std::move(found_);
    }

private:
    static void on_error(rd_kafka_t*, int /*error*/, const char* reason, void* self) {
        auto& said = static_cast<Inspector*>(self)->said_;
        if (said.empty()) said = reason;  // later ones only say that all brokers are down
    }

    Failure no_answer(rd_kafka_resp_err_t error) const {
        const std::string why = said_.empty() ? rd_kafka_err2str(error) : said_;
        return retryable("KAFKA_DOWN", fmt::format("no broker of {} answers: {}", options_.brokers,
                                                   secrets_.hidden(why, kMaxReasonBytes)));
    }

    void take_topics(std::span<const rd_kafka_metadata_topic_t> topics) {
        for (const auto& topic : topics) {
            const std::string name = topic.topic;
            if (name.starts_with("__") || !matches_pattern(name, options_.topic_pattern)) continue;
            if (topic.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
                found_.unreadable.push_back(fmt::format("{}: {}", name, rd_kafka_err2str(topic.err)));
                continue;
            }
            found_.topics.push_back(name);
            for (int partition = 0; partition < topic.partition_cnt; ++partition) {
                places_.push_back({name, partition, RD_KAFKA_OFFSET_INVALID});
            }
        }
    }

    void ask_the_group(rd_kafka_t* kafka) {
        const Partitions list = partitions_of(places_);
        auto error = rd_kafka_committed(kafka, list.get(), deadline_ms(deadline_));
        for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) error = list->elems[i].err;
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) found_.group_problem = rd_kafka_err2str(error);
    }

    const RecordSourceOptions& options_;
    const sink::Secrets secrets_;
    const Duration deadline_;
    std::string said_;
    KafkaInspection found_;
    std::vector<Place> places_;
};

}  // namespace

Result<KafkaInspection> inspect_kafka(const RecordSourceOptions& options, Duration deadline) {
    return Inspector(options, deadline).run();
}

}  // namespace deliverd::deadletter
