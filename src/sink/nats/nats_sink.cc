#include "sink/nats/nats_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/try.h"
#include "sink/nats/flights.h"
#include "sink/nats/nats_connection.h"
#include "sink/nats/nats_message.h"
#include "sink/nats/outcomes.h"
#include "sink/reconnect.h"
#include "sink/secret_file.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr Duration kLongestWait = std::chrono::minutes(1);  // work wakes it earlier
constexpr Duration kLongestReconnectPause = std::chrono::seconds(1);
constexpr std::size_t kBatch = 256;  // messages published before answers and deadlines are looked at again

class NatsSink final : public ThreadSink, private AnswerReader {
public:
    NatsSink(NatsSinkOptions options, Log& log)
        : options_(std::move(options)),
          hosts_(nats_hosts(options_.url)),
          log_(log, "nats", hosts_),
          token_(options_.token_file, kToken) {
        begin();
    }
    ~NatsSink() override { stop(Duration::zero()); }

    Result<void> check(Duration deadline) override {
        TRY(check_nats_options(options_));
        SecretFile file(options_.token_file, kToken);  // not the thread's
        TRY_ASSIGN(const auto token, file.read());
        return check_jetstream(options_, token, deadline);
    }

private:
    void wake() override REQUIRES(mutex_) { changed_.notify_all(); }
    [[nodiscard]] std::optional<Outcome> refusal() const override REQUIRES(mutex_) { return down_; }

    void run() override {
        while (!is_over()) {
            if (!link_ && clock_.now() >= connect_at_) connect();
            const auto batch = next_batch();
            if (link_) publish(batch);
            expire();
            drop_link_if_lost();
        }
        give_up();
    }

    bool is_over() {
        const MutexLock lock(mutex_);
        if (!stop_at_) return false;
        return clock_.now() >= *stop_at_ || (incoming_.empty() && flights_.empty());
    }

    using Batch = std::vector<std::pair<std::uint64_t, Job>>;

    /// Waits until there is work. Returns the messages to publish now, already counted as under way.
    Batch next_batch() {
        const MutexLock lock(mutex_);
        const auto stop_seen = stop_at_;
        const auto deadline = flights_.next_deadline();
        auto until = clock_.now() + kLongestWait;
        if (!link_) until = std::min(until, connect_at_);
        if (deadline) until = std::min(until, *deadline);
        if (stop_seen) until = std::min(until, *stop_seen);
        changed_.wait_until(mutex_, until, [&]() REQUIRES(mutex_) {
            // Room for a whole batch: waking for each answer would publish one message at a time.
            const bool can_publish = link_ && !incoming_.empty() && flights_.has_room(kBatch);
            const bool all_done = stop_at_ && incoming_.empty() && flights_.empty();
            return lost_ || can_publish || all_done || stop_at_ != stop_seen;
        });
        Batch batch;
        const auto answered_by = clock_.now() + options_.timeout;
        while (link_ && !lost_ && !incoming_.empty() && batch.size() < kBatch && flights_.has_room()) {
            batch.emplace_back(flights_.add(incoming_.front(), answered_by), incoming_.front());
            incoming_.pop_front();
        }
        return batch;
    }

    void publish(const Batch& batch) {
        for (const auto& [id, job] : batch) {
            const auto failed = publish_one(id, *job.message);
            if (!failed) continue;
            if (const auto flight = take(id)) flight->job.report(*failed);
        }
    }

    /// None when the message is on its way.
    std::optional<Outcome> publish_one(std::uint64_t id, const Message& message) {
        if (std::cmp_greater(message.body.size(), link_->max_payload))
            return too_large(message.body.size(), hosts_, link_->max_payload);
        const auto made = make_nats_message(message, options_.attributes, fmt::format("{}.{}", link_->inbox, id));
        if (!made) return refused(made.error());
        auto* connection = link_->connection.get();
        // Asked before, because a publish that fails does not say whether some of it went out.
        if (natsConnection_IsClosed(connection))
            return unreachable(fmt::format("the connection to {} is gone", hosts_));
        const auto status = natsConnection_PublishMsg(connection, made->get());
        if (status == NATS_OK) return std::nullopt;
        if (status == NATS_MAX_PAYLOAD) return too_large(message.body.size(), hosts_, link_->max_payload);
        return connection_lost(hosts_, natsStatus_GetText(status));  // some of it may have gone out
    }

    std::optional<Flight> take(std::uint64_t id) {
        const MutexLock lock(mutex_);
        auto flight = flights_.take(id);
        if (flight && (!incoming_.empty() || stop_at_)) changed_.notify_all();
        return flight;
    }

    // --- answers, on threads of libnats ---

    void on_end() override {
        const MutexLock lock(mutex_);
        lost_ = true;
        changed_.notify_all();
    }

    void on_refusal(std::string_view subject) override {
        std::vector<Flight> refused_ones;
        {
            const MutexLock lock(mutex_);
            refused_ones = flights_.take_refused(subject, clock_.now());
            changed_.notify_all();
        }
        // Without the lock, as everywhere here: the receiver may take its time.
        for (const auto& flight : refused_ones) flight.job.report(not_permitted(hosts_, subject));
    }

    void on_answer(natsConnection* connection, natsMsg* answer) override {
        const std::string_view subject = natsMsg_GetSubject(answer);
        std::uint64_t id = 0;
        const char* digits = subject.data() + subject.rfind('.') + 1;
        std::from_chars(digits, subject.data() + subject.size(), id);
        const bool nobody_there = natsMsg_IsNoResponders(answer);
        if (nobody_there && ask_why(connection, id, std::string(subject))) return;

        const auto flight = take(id);
        if (!flight) return;  // too late: it has timed out
        const auto& topic = flight->job.message->topic;
        const std::string_view data(natsMsg_GetData(answer), static_cast<std::size_t>(natsMsg_GetDataLength(answer)));
        if (nobody_there) {
            flight->job.report(jetstream_is_off(topic));
        } else {
            flight->job.report(flight->unclaimed ? outcome_of_stream_names(data, topic)
                                                 : outcome_of_publish(data, topic));
        }
    }

    /// Nobody took message `id`: either no stream has its subject, which is permanent, or JetStream is still starting,
    /// which is not. Asks JetStream which. False when it was asked already.
    bool ask_why(natsConnection* connection, std::uint64_t id, const std::string& reply) {
        std::string question = R"({"subject":)";
        {
            const MutexLock lock(mutex_);
            Flight* flight = flights_.find(id);
            if (flight == nullptr || flight->unclaimed) return false;
            flight->unclaimed = true;
            append_json_string(question, flight->job.message->topic);
        }
        question += '}';
        // If this fails the message times out, and its outcome still says that nobody took it.
        static_cast<void>(natsConnection_PublishRequest(connection, "$JS.API.STREAM.NAMES", reply.c_str(),
                                                        question.data(), static_cast<int>(question.size())));
        return true;
    }

    // --- time and the connection ---

    void expire() {
        std::vector<Flight> late;
        {
            const MutexLock lock(mutex_);
            late = flights_.take_expired(clock_.now());
        }
        for (const auto& flight : late) flight.job.report(late_outcome(flight));
    }

    Outcome late_outcome(const Flight& flight) const {
        const auto& topic = flight.job.message->topic;
        if (flight.unclaimed) {
            Outcome outcome = jetstream_is_off(topic);
            outcome.not_attempted = false;  // we may lack the permission to ask: it must not be retried for ever
            return outcome;
        }
        return not_acknowledged(hosts_, options_.timeout, topic);
    }

    void connect() {
        auto link = token_.read().and_then([this](auto token) { return open_link(options_, token, *this); });
        std::deque<Job> refused_jobs;
        {
            const MutexLock lock(mutex_);
            // While the connection is down no message waits here: the caller keeps them.
            down_ = link ? std::nullopt : std::optional(unreachable(link.error().message));
            if (down_) refused_jobs.swap(incoming_);
        }
        if (link) {
            log_.connected();
            reconnect_pause_.reset();
            link_ = std::move(*link);
            return;
        }
        log_.failed(link.error().message);
        connect_at_ = clock_.now() + reconnect_pause_.next();
        for (const auto& job : refused_jobs) job.report(unreachable(link.error().message));
    }

    void close_link() {
        if (!link_) return;
        natsConnection_Close(link_->connection.get());
        {  // until libnats has called on_end(), its threads may call us
            const MutexLock lock(mutex_);
            changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return lost_; });
        }
        link_.reset();
    }

    void drop_link_if_lost() {
        {
            const MutexLock lock(mutex_);
            if (!lost_) return;
        }
        close_link();
        log_.lost("the server closed it, or does not answer");
        connect_at_ = clock_.now();  // at once: the pauses are for servers that cannot be reached
        for (const auto& flight : take_all()) {
            flight.job.report(flight.unclaimed ? jetstream_is_off(flight.job.message->topic)
                                               : connection_lost(hosts_, "no acknowledgement came before"));
        }
    }

    void give_up() {
        close_link();
        for (const auto& flight : take_all()) {
            flight.job.report(flight.unclaimed ? stopped_unsent() : stopped_under_way());
        }
    }

    /// After close_link().
    std::vector<Flight> take_all() {
        const MutexLock lock(mutex_);
        lost_ = false;
        return flights_.take_all();
    }

    const NatsSinkOptions options_;
    const std::string hosts_;

    Condition changed_;
    Flights flights_ GUARDED_BY(mutex_);
    std::optional<Outcome> down_ GUARDED_BY(mutex_);  // of messages since an attempt to connect failed
    bool lost_ GUARDED_BY(mutex_) = false;            // the link's connection is closed

    // Used by the sink's thread only.
    ConnectionLog log_;
    SecretFile token_;
    std::unique_ptr<Link> link_;
    Instant connect_at_{};
    Backoff reconnect_pause_{kLongestReconnectPause};
};

}  // namespace

Result<std::unique_ptr<Sink>> make_nats_sink(NatsSinkOptions options, Log& log) {
    TRY(check_nats_options(options));
    return start_sink<NatsSink>("NATS", std::move(options), log);
}

}  // namespace deliverd::sink
