#include "deadletter/kafka/record_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "base/try.h"
#include "deadletter/kafka/consumer.h"
#include "deadletter/topic_pattern.h"
#include "sink/kafka/client.h"

namespace deliverd::deadletter {

namespace {

using sink::kMaxLogBytes;
using sink::wait_ms;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kCloseDeadline = seconds(5);
constexpr Duration kCloseSlice = milliseconds(100);
constexpr Duration kSeekDeadline = seconds(1);  // within the process
constexpr Duration kLagDeadline = seconds(1);   // per request of lag() and reachable()
constexpr Duration kLongestWait = std::chrono::hours(1);

constexpr std::string_view kResetEvent =
    "dead letters were lost before they were read: the broker no longer has them (their retention ended, or their "
    "topic was created again); reading continues with the oldest one";

class KafkaSource final : public RecordSource {
public:
    KafkaSource(RecordSourceOptions options, Log& log)
        : options_(std::move(options)),
          secrets_(options_.librdkafka),
          log_(log),
          lines_(log, "consumer_group", options_.group),
          loud_(log, "consumer_group", options_.group),
          login_(options_.password_file, options_.librdkafka, log, "consumer_group", options_.group) {}
    ~KafkaSource() override { close(); }

    /// Before anything else.
    Result<void> start() {
        TRY_ASSIGN(auto conf, make_consumer_conf(options_));
        rd_kafka_conf_set_opaque(conf.get(), this);
        rd_kafka_conf_set_rebalance_cb(conf.get(), [](auto*, auto error, auto* partitions, void* self) {
            static_cast<KafkaSource*>(self)->rebalance(error, partitions);
        });
        rd_kafka_conf_set_error_cb(conf.get(), [](auto*, int error, const char* reason, void* self) {
            static_cast<KafkaSource*>(self)->complain(static_cast<rd_kafka_resp_err_t>(error), reason);
        });
        rd_kafka_conf_set_log_cb(conf.get(), [](const auto* kafka, int level, const char* facility, const char* text) {
            static_cast<KafkaSource*>(rd_kafka_opaque(kafka))->take_log(level, facility, text);
        });
        TRY_ASSIGN(const auto made, sink::new_client(RD_KAFKA_CONSUMER, std::move(conf), options_.librdkafka));
        kafka_.reset(made);
        // Its log and its errors come through poll() like the records, so that everything here has one thread.
        rd_kafka_set_log_queue(kafka_.get(), nullptr);
        rd_kafka_poll_set_consumer(kafka_.get());
        queue_.reset(rd_kafka_queue_get_consumer(kafka_.get()));
        const auto subscription = subscription_of(options_.topic_pattern);
        const Partitions topics = partitions_of(std::array{Place{subscription, RD_KAFKA_PARTITION_UA, 0}});
        const auto error = rd_kafka_subscribe(kafka_.get(), topics.get());
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
        return bad_argument(
            fmt::format("librdkafka cannot subscribe to '{}': {}", options_.topic_pattern, rd_kafka_err2str(error)));
    }

    Result<std::vector<Record>> poll(std::size_t limit, std::size_t max_bytes, Duration wait) override {
        if (rewinding_) read_again();
        std::vector<Record> records;
        std::size_t bytes = 0;
        const auto now = clock_.now();
        if (auto password = login_.look(kafka_.get(), now)) secrets_.add(*std::move(password));
        const auto until = now + std::clamp(wait, Duration::zero(), kLongestWait);
        while (!ended_ && records.size() < limit && bytes < max_bytes) {
            const bool woken = records.empty() && woken_.exchange(false);
            const auto left = records.empty() && !woken ? until - clock_.now() : Duration::zero();
            // One at a time: of a batch, librdkafka 2.0 may lose some when its partitions change meanwhile.
            const ConsumedMessage message(rd_kafka_consumer_poll(kafka_.get(), wait_ms(left)));
            if (message) {
                take(*message, records, bytes);
            } else if (left <= Duration::zero()) {
                break;
            }
        }
        // What came before the end is handed out first. The next call reports the end.
        if (ended_ && records.empty()) return Failure(*ended_);
        return records;
    }

    Result<void> commit(Duration deadline) override {
        const auto places = positions_.to_commit();
        if (places.empty()) return {};
        const Partitions offsets = partitions_of(places);
        const Queue answers(rd_kafka_queue_new(kafka_.get()));
        const auto failed = [](std::string_view why) {
            return retryable("kafka_commit", fmt::format("offsets of dead letters could not be committed: {}", why));
        };
        // Through a queue of its own: rd_kafka_commit() has no deadline.
        const auto asked = rd_kafka_commit_queue(kafka_.get(), offsets.get(), answers.get(), nullptr, nullptr);
        if (asked != RD_KAFKA_RESP_ERR_NO_ERROR) return failed(rd_kafka_err2str(asked));
        const Event answer(rd_kafka_queue_poll(answers.get(), wait_ms(deadline)));
        if (!answer) return failed("no broker answered in time");
        auto error = rd_kafka_event_error(answer.get());
        const auto* done = rd_kafka_event_topic_partition_list(answer.get());
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR && done != nullptr) {
            for (const auto& one : entries(*done)) {
                if (one.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
                    error = one.err;
                } else {
                    positions_.commit(one.topic, one.partition, one.offset);
                }
            }
        }
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return failed(rd_kafka_err2str(error));
        return {};
    }

    void pause() override {
        if (paused_) return;
        paused_ = true;
        rewinding_ = false;
        rd_kafka_pause_partitions(kafka_.get(), all_partitions().get());
    }

    void resume() override {
        if (!paused_) return;
        paused_ = false;
        read_again();
    }

    void wake() override {
        woken_ = true;
        rd_kafka_queue_yield(queue_.get());
    }

    [[nodiscard]] bool reachable() override { return sink::any_broker_answers(kafka_.get(), kLagDeadline); }

    [[nodiscard]] std::int64_t lag() override { return find_committed() ? count_behind().value_or(-1) : -1; }

private:
    [[nodiscard]] Partitions all_partitions() const {
        return partitions_of(
            positions_.places([](const auto&) { return std::optional<std::int64_t>(RD_KAFKA_OFFSET_INVALID); }));
    }

    void take(const rd_kafka_message_t& message, std::vector<Record>& records, std::size_t& bytes) {
        if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) return complain(message.err, rd_kafka_message_errstr(&message));
        const char* topic = rd_kafka_topic_name(message.rkt);
        // It was on its way when it was paused: given again later, and not committed with what was given.
        if (paused_ || rewinding_) return positions_.withhold(topic, message.partition, message.offset);
        // If its partition went to another member, that member gives it.
        if (!positions_.give(topic, message.partition, message.offset)) return;
        records.push_back(record_of(message));
        bytes += content_bytes(records.back());
    }

    /// Sets partitions back to where they were committed, and resumes them. Those that cannot be set back now, because
    /// they are being revoked or were only just assigned, are tried again by every poll(), and give nothing until then.
    void read_again() {
        rewinding_ = false;
        if (const auto again = positions_.to_give_again(); !again.empty()) {
            const Partitions list = partitions_of(again);
            const Handle<rd_kafka_error_t, rd_kafka_error_destroy> error(
                rd_kafka_seek_partitions(kafka_.get(), list.get(), wait_ms(kSeekDeadline)));
            rewinding_ = error != nullptr || std::ranges::any_of(entries(*list), [](const auto& one) {
                             return one.err != RD_KAFKA_RESP_ERR_NO_ERROR;
                         });
            if (rewinding_) return;
            for (const auto& one : entries(*list)) positions_.forget_given(one.topic, one.partition);
        }
        rd_kafka_resume_partitions(kafka_.get(), all_partitions().get());
    }

    void rebalance(rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t* partitions) {
        positions_.clear();  // what was given and not committed is read again by the next member
        if (error != RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
            if (error != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) complain(error, "the group could not be balanced");
            // A partition that comes back must not be paused.
            rd_kafka_resume_partitions(kafka_.get(), partitions);
            rd_kafka_assign(kafka_.get(), nullptr);
            return;
        }
        for (const auto& one : entries(*partitions)) positions_.add(one.topic, one.partition);
        const auto assigned = rd_kafka_assign(kafka_.get(), partitions);
        if (assigned != RD_KAFKA_RESP_ERR_NO_ERROR) complain(assigned, "partitions could not be assigned");
        if (paused_) rd_kafka_pause_partitions(kafka_.get(), partitions);
        rewinding_ = false;  // an assignment begins at the committed offsets
        log_.info("partitions of dead-letter topics were assigned",
                  {{"consumer_group", options_.group}, {"partitions", partitions->cnt}});
    }

    void complain(rd_kafka_resp_err_t error, std::string_view reason) {
        if (error == RD_KAFKA_RESP_ERR__FATAL) {
            std::array<char, 512> text{};
            const auto cause = rd_kafka_fatal_error(kafka_.get(), text.data(), text.size());
            const auto why = secrets_.hidden(text.data(), kMaxLogBytes);
            lines_.write(LogLevel::error, rd_kafka_err2name(cause), why);
            ended_ = Error{ErrorClass::permanent, "kafka_fatal", fmt::format("dead letters cannot be read: {}", why)};
            return;
        }
        // The one line that says why nothing comes in must not be left out because of the many lines before it.
        auto& gate = error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ? loud_ : lines_;
        gate.write(LogLevel::warn, rd_kafka_err2name(error), secrets_.hidden(reason, kMaxLogBytes));
    }

    void take_log(int syslog_level, std::string_view facility, std::string_view text) {
        const auto shown = secrets_.hidden(text, kMaxLogBytes);
        const LogLevel level = sink::log_level(syslog_level);
        // librdkafka has no event for it: only this line tells that the broker dropped records before they were read.
        if (facility == "OFFSET" && level == LogLevel::warn && text.find("offset reset") != text.npos) {
            return loud_.write(LogLevel::error, facility, shown, kResetEvent);
        }
        lines_.write(level, facility, shown);
    }

    /// Asks the group once for each partition that this member has committed nothing of yet.
    bool find_committed() {
        const auto unknown = positions_.places([](const Positions::Partition& partition) {
            return partition.committed ? std::nullopt : std::optional<std::int64_t>(RD_KAFKA_OFFSET_INVALID);
        });
        if (unknown.empty()) return true;
        const Partitions list = partitions_of(unknown);
        const auto error = rd_kafka_committed(kafka_.get(), list.get(), wait_ms(kLagDeadline));
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
        for (const auto& one : entries(*list)) {
            if (one.err != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
            if (auto* found = positions_.find(one.topic, one.partition)) {
                found->committed = std::max<std::int64_t>(one.offset, 0);  // none: from the beginning
            }
        }
        return true;
    }

    std::optional<std::int64_t> count_behind() {
        std::int64_t behind = 0;
        std::vector<Place> unread;  // nothing was read of them yet, so that librdkafka does not know their ends
        for (const auto& place : positions_.places([](const auto& partition) { return partition.committed; })) {
            std::int64_t low = 0;
            std::int64_t high = 0;
            const auto error =
                rd_kafka_get_watermark_offsets(kafka_.get(), place.topic.c_str(), place.partition, &low, &high);
            // While it is paused nothing is fetched, and the end that librdkafka remembers stands still.
            if (paused_ || error != RD_KAFKA_RESP_ERR_NO_ERROR || high < 0) {
                unread.push_back(place);
            } else {
                behind += std::max<std::int64_t>(high - std::max(place.offset, low), 0);
            }
        }
        if (unread.empty()) return behind;
        // Asks for the ends of all of them at once. A query of the watermarks would be a round trip for each.
        const Partitions list = partitions_of(unread);
        for (auto& one : entries(*list)) one.offset = RD_KAFKA_OFFSET_END;
        const auto error = rd_kafka_offsets_for_times(kafka_.get(), list.get(), wait_ms(kLagDeadline));
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return std::nullopt;
        for (const auto& one : entries(*list)) {
            if (one.err != RD_KAFKA_RESP_ERR_NO_ERROR) return std::nullopt;
            if (const auto* found = positions_.find(one.topic, one.partition)) {
                behind += std::max<std::int64_t>(one.offset - found->committed.value_or(0), 0);
            }
        }
        return behind;
    }

    /// Leaves the group, so that its other members get the partitions now and not after session.timeout.ms.
    /// rd_kafka_consumer_close() does the same without a deadline.
    void close() {
        if (!kafka_) return;
        const Queue events(rd_kafka_queue_new(kafka_.get()));
        if (rd_kafka_error_t* error = rd_kafka_consumer_close_queue(kafka_.get(), events.get())) {
            rd_kafka_error_destroy(error);
            return;
        }
        const auto until = clock_.now() + kCloseDeadline;
        while (rd_kafka_consumer_closed(kafka_.get()) == 0 && clock_.now() < until) {
            const ConsumedMessage unread(rd_kafka_consume_queue(events.get(), wait_ms(kCloseSlice)));
        }
    }

    const RecordSourceOptions options_;
    const SystemClock clock_;
    sink::Secrets secrets_;
    Log& log_;
    sink::LogGate lines_;
    sink::LogGate loud_;  // lines that the others must not crowd out
    sink::Login login_;

    Positions positions_;
    bool paused_ = false;
    bool rewinding_ = false;  // resume() was called, and some partition is not set back yet
    std::optional<Error> ended_;
    std::atomic<bool> woken_ = false;

    Consumer kafka_;  // close() has left the group, or could not reach it
    Queue queue_;     // the consumer's, to wake poll()
};

}  // namespace

Result<void> check_record_source_options(const RecordSourceOptions& options) {
    TRY_ASSIGN(auto conf, make_consumer_conf(options));
    return sink::try_client(RD_KAFKA_CONSUMER, std::move(conf), options.librdkafka);
}

Result<std::unique_ptr<RecordSource>> make_record_source(RecordSourceOptions options, Log& log) {
    auto source = std::make_unique<KafkaSource>(std::move(options), log);
    TRY(source->start());
    return source;
}

}  // namespace deliverd::deadletter
