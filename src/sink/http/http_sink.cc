#include "sink/http/http_sink.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "sink/breaker.h"
#include "sink/handle.h"
#include "sink/http/credentials.h"
#include "sink/http/curl_post.h"
#include "sink/http/target.h"
#include "sink/http/transfer.h"
#include "sink/secret_file.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr int kIdlePollMs = 60'000;  // work wakes it earlier
constexpr Duration kLongestBreakerPause = std::chrono::minutes(5);

// The breaker counts these: no connection, no answer in time, and a receiver that reports its own failure.
constexpr std::string_view kNetworkTimeout = "NETWORK_TIMEOUT";
constexpr std::string_view kBroker5xx = "BROKER_5XX";

/// For a message that could not be started.
Outcome to_outcome(const Error& error) {
    if (error.error_class == ErrorClass::permanent) {
        return failed_attempt(OutcomeKind::permanent, error.code, error.message);
    }
    return not_attempted(error.code, error.message);
}

class HttpSink final : public ThreadSink {
public:
    HttpSink(Target target, Log& log)
        : target_(std::move(target)),
          log_(log),
          credentials_(target_.options),
          breaker_({target_.options.breaker_failures, target_.options.breaker_pause, kLongestBreakerPause}),
          multi_(curl_multi_init()) {
        if (!multi_) throw std::bad_alloc();
        const auto connections = static_cast<long>(target_.options.max_connections);
        curl_multi_setopt(multi_.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
        curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, connections);
        curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
        begin();
    }
    ~HttpSink() override { stop(Duration::zero()); }

    Result<void> check(Duration deadline) override {
        TRY(check_ca_file(target_.options.ca_file));
        Credentials credentials(target_.options);  // not the thread's
        TRY(credentials.refresh());
        try {
            HttpSinkOptions options = target_.options;
            options.timeout = deadline;
            const Easy easy = make_easy(options);
            CurlProblem problem;
            problem.attach(easy.get());
            curl_easy_setopt(easy.get(), CURLOPT_CONNECT_ONLY, 1L);  // connects and, for https, shakes hands
            const CURLcode code = curl_easy_perform(easy.get());
            if (code == CURLE_OK) return {};
            return retryable("NETWORK_TIMEOUT",
                             fmt::format("cannot reach {}: {}; is the receiver running, and the URL right?",
                                         target_.host, problem.words(code)));
        } catch (const std::exception& error) {
            return retryable("NETWORK_TIMEOUT", fmt::format("cannot check {}: {}", target_.host, error.what()));
        }
    }

    [[nodiscard]] std::string_view name() const override { return "http"; }

private:
    void wake() override REQUIRES(mutex_) { curl_multi_wakeup(multi_.get()); }

    void run() override {
        while (const auto wait = next_wait()) {
            start_waiting();
            int running = 0;
            if (const auto code = curl_multi_perform(multi_.get(), &running); code != CURLM_OK) {
                log_.error("libcurl failed", {{"sink", "http"}, {"error", curl_multi_strerror(code)}});
            }
            // A finished transfer leaves room for a waiting one, or may have been the last: look before sleeping.
            if (!finish_done()) curl_multi_poll(multi_.get(), nullptr, 0, *wait, nullptr);
        }
        give_up();
    }

    /// Takes over what was sent meanwhile. Milliseconds to wait at most; none when the sink has finished.
    std::optional<int> next_wait() {
        const MutexLock lock(mutex_);
        waiting_.insert(waiting_.end(), incoming_.begin(), incoming_.end());
        incoming_.clear();
        if (!stop_at_) return kIdlePollMs;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*stop_at_ - clock_.now()).count();
        if (left <= 0 || (waiting_.empty() && active_.empty())) return std::nullopt;
        return static_cast<int>(std::min<std::int64_t>(left, kIdlePollMs));
    }

    void start_waiting() {
        while (!waiting_.empty() && active_.size() < target_.options.max_connections) {
            const Job job = waiting_.front();
            waiting_.pop_front();
            const auto permit = breaker_.begin(clock_.now());
            if (!permit) {
                job.report(paused_outcome());
            } else if (auto started = start(job, *permit); !started) {
                breaker_.cancelled(*permit);
                job.report(to_outcome(started.error()));
            }
        }
    }

    Result<void> start(const Job& job, Breaker::Permit permit) {
        auto read = credentials_.refresh();
        warn_about_credentials(read);
        if (!read) return read;
        if (idle_.empty()) idle_.push_back(std::make_unique<Transfer>(target_));
        auto transfer = std::move(idle_.back());
        idle_.pop_back();
        const auto proof = credentials_.prove(*job.message, clock_.wall_now());
        auto ready = transfer->prepare(*job.message, *job.receiver, proof);
        if (ready && curl_multi_add_handle(multi_.get(), transfer->easy()) != CURLM_OK) {
            ready = retryable("NETWORK_TIMEOUT", "libcurl took no further request; nothing was sent");
        }
        if (ready) {
            ASSERT(active_.size() < target_.options.max_connections);
            active_.emplace(transfer.release(), permit);
        } else {
            idle_.push_back(std::move(transfer));
        }
        return ready;
    }

    /// Once each time a file turns bad, not once per message.
    void warn_about_credentials(const Result<void>& read) {
        if (!read && credentials_are_good_) {
            log_.warn("credentials are not usable", {{"error", read.error().message}});
        }
        credentials_are_good_ = read.has_value();
    }

    Outcome paused_outcome() const {
        Outcome outcome = not_attempted("DESTINATION_PAUSED",
                                        fmt::format("{} failed {} times in a row; nothing is sent to it for a while",
                                                    target_.host, target_.options.breaker_failures));
        outcome.retry_after = breaker_.wait(clock_.now());
        return outcome;
    }

    /// A 5xx to a message that failed before may be about the message: a few bad ones, retried again and again, must
    /// not stop the others.
    void count_for_breaker(Breaker::Permit permit, const Outcome& outcome, const Message& message) {
        const bool says_little = outcome.code == kBroker5xx && message.failures > 0;
        if (says_little && permit == Breaker::Permit::normal) return;
        const bool failed = outcome.code == kNetworkTimeout || outcome.code == kBroker5xx;
        switch (breaker_.ended(permit, !failed, clock_.now())) {
            case Breaker::Change::opened:
                log_.warn("destination paused", {{"sink", "http"},
                                                 {"host", target_.host},
                                                 {"failures", target_.options.breaker_failures},
                                                 {"pause_seconds", to_seconds(breaker_.pause())},
                                                 {"last", outcome.detail}});
                break;
            case Breaker::Change::closed:
                log_.info("destination resumed", {{"sink", "http"}, {"host", target_.host}});
                break;
            case Breaker::Change::none:
                break;
        }
    }

    bool finish_done() {
        bool any = false;
        int left = 0;
        while (const CURLMsg* done = curl_multi_info_read(multi_.get(), &left)) {
            if (done->msg != CURLMSG_DONE) continue;
            const CURLcode code = done->data.result;  // `done` does not outlive the next call on the multi handle
            void* self = nullptr;
            curl_easy_getinfo(done->easy_handle, CURLINFO_PRIVATE, &self);
            auto* transfer = static_cast<Transfer*>(self);
            Outcome outcome = transfer->outcome(code, clock_.wall_now());
            count_for_breaker(active_.at(transfer), outcome, transfer->message());
            retire(transfer).report(std::move(outcome));
            any = true;
        }
        return any;
    }

    /// Puts it back among the idle transfers; at most max_connections exist.
    const Transfer& retire(Transfer* transfer) {
        curl_multi_remove_handle(multi_.get(), transfer->easy());
        active_.erase(transfer);
        idle_.emplace_back(transfer);
        return *transfer;
    }

    void give_up() {
        while (!active_.empty()) {
            retire(active_.begin()->first).report(stopped_under_way());
        }
        for (const auto& job : waiting_) job.report(stopped_unsent());
        waiting_.clear();
    }

    const Target target_;
    Log& log_;

    // Used by the sink's thread only.
    Credentials credentials_;
    bool credentials_are_good_ = true;
    Breaker breaker_;
    Handle<CURLM, curl_multi_cleanup> multi_;  // outlives the handles below; only its wakeup is for all threads
    std::vector<std::unique_ptr<Transfer>> idle_;
    std::unordered_map<Transfer*, Breaker::Permit> active_;  // empty once the thread has ended
    std::deque<Job> waiting_;
};

}  // namespace

Result<std::unique_ptr<Sink>> make_http_sink(HttpSinkOptions options, Log& log) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK) return permanent("bad_library", "libcurl could not be initialised");
    TRY_ASSIGN(auto target, make_target(std::move(options)));
    try {
        return std::make_unique<HttpSink>(std::move(target), log);
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start the HTTP sink: {}", error.what()));
    }
}

}  // namespace deliverd::sink
