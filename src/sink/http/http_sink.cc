#include "sink/http/http_sink.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "base/handle.h"
#include "base/hmac.h"
#include "base/try.h"
#include "sink/breaker.h"
#include "sink/http/curl_request.h"
#include "sink/http/http_url.h"
#include "sink/http/transfer.h"
#include "sink/http/webhook_signature.h"
#include "sink/secret_file.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr int kIdlePollMs = 60'000;  // work wakes it earlier

constexpr SecretKind kSecrets{"secret file", "SECRET_UNREADABLE", "put the signing secret there (whsec_…)", true};

// The breaker counts these: no connection, no answer in time, and a receiver that reports its own failure.
constexpr std::string_view kNetworkTimeout = "NETWORK_TIMEOUT";
constexpr std::string_view kBroker5xx = "BROKER_5XX";

/// The bearer token and the signing secrets, as the files have them at the moment. One thread at a time. Never shows
/// what it holds.
class Credentials {
public:
    explicit Credentials(const HttpSinkOptions& options)
        : token_file_(options.token_file, kToken), secret_file_(options.secret_file, kSecrets) {
        if (options.secret.empty()) return;
        auto secrets = WebhookSecrets::parse(options.secret);
        ASSERT(secrets.has_value());  // make_target() refuses others
        secrets_ = std::move(*secrets);
    }

    /// Reads what has changed. Failure: retryable, naming the file, while one of them cannot be used.
    [[nodiscard]] Result<void> refresh() {
        TRY_ASSIGN(token_, token_file_.read());
        TRY_ASSIGN(const auto read, secret_file_.read());
        if (read == secret_text_) return {};
        auto secrets = WebhookSecrets::parse(read);
        if (!secrets) return secret_file_.unusable(secrets.error().message);
        secrets_ = std::move(*secrets);
        secret_text_ = read;
        return {};
    }

    /// For a request that leaves at `now`; valid until the next refresh().
    [[nodiscard]] RequestProof prove(const Message& message, WallTime now) const {
        RequestProof proof{token_};
        if (secrets_.empty()) return proof;
        const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
        proof.timestamp = std::to_string(seconds);
        proof.signature = secrets_.sign(message.message_id, seconds, message.body);
        return proof;
    }

private:
    SecretFile token_file_;
    SecretFile secret_file_;
    std::string_view token_;
    std::string secret_text_;  // what secrets_ was read from
    WebhookSecrets secrets_;
};

class HttpSink final : public ThreadSink {
public:
    HttpSink(Target target, Log& log)
        : target_(std::move(target)),
          log_(log),
          credentials_(target_.options),
          breaker_({target_.options.breaker_failures, target_.options.breaker_pause}),
          multi_(curl_multi_init()) {
        if (!multi_) throw std::bad_alloc();
        const auto connections = static_cast<long>(target_.options.max_connections);
        // A limit of libcurl's own as well: a connection that is kept idle counts, and transfers may outnumber them.
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
        HttpSinkOptions options = target_.options;
        options.timeout = deadline;
        const CurlRequest probe(options);
        curl_easy_setopt(probe.easy(), CURLOPT_CONNECT_ONLY, 1L);  // connects and, for https, shakes hands
        const CURLcode code = curl_easy_perform(probe.easy());
        if (code == CURLE_OK) return {};
        return retryable("NETWORK_TIMEOUT",
                         fmt::format("cannot reach {}: {}; check that the receiver runs, and the URL", target_.host,
                                     probe.problem(code)));
    }

private:
    struct Active {
        std::unique_ptr<Transfer> transfer;
        Breaker::Permit permit;
    };

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
        while (!active_.empty()) retire(active_.begin()->first).report(stopped_under_way());
    }

    /// Milliseconds to wait at most; none when the sink has finished.
    std::optional<int> next_wait() {
        const MutexLock lock(mutex_);
        // libcurl's own timers shorten the poll: only the stop has to be looked at here.
        if (!stop_at_) return kIdlePollMs;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*stop_at_ - clock_.now()).count();
        if (left <= 0 || (incoming_.empty() && active_.empty())) return std::nullopt;
        return static_cast<int>(std::min<std::int64_t>(left, kIdlePollMs));
    }

    std::optional<Job> next_job() {
        if (active_.size() >= target_.options.max_connections) return std::nullopt;
        const MutexLock lock(mutex_);
        if (incoming_.empty()) return std::nullopt;
        const Job job = incoming_.front();
        incoming_.pop_front();
        return job;
    }

    void start_waiting() {
        while (const auto job = next_job()) {
            const auto permit = breaker_.begin(clock_.now());
            if (!permit) {
                job->report(paused_outcome());
            } else if (const auto started = start(*job, *permit); !started) {
                breaker_.cancelled(*permit);  // it says nothing about the receiver
                const auto& [kind, code, why] = started.error();
                const bool for_ever = kind == ErrorClass::permanent;
                job->report(for_ever ? failed_attempt(OutcomeKind::permanent, code, why) : not_attempted(code, why));
            }
        }
    }

    Result<void> start(const Job& job, Breaker::Permit permit) {
        // For each message: a rotated secret must count from the next request on. It costs a stat(2) per file.
        const auto read = credentials_.refresh();
        // Once each time a file turns bad, not once per message.
        if (!read && credentials_are_good_) log_.warn("credentials are not usable", {{"error", read.error().message}});
        credentials_are_good_ = read.has_value();
        TRY(read);
        if (idle_.empty()) idle_.push_back(std::make_unique<Transfer>(target_));
        Transfer& transfer = *idle_.back();
        TRY(transfer.prepare(job, credentials_.prove(*job.message, clock_.wall_now())));
        if (curl_multi_add_handle(multi_.get(), transfer.easy()) != CURLM_OK) {
            return retryable("NETWORK_TIMEOUT", "libcurl accepted no further request; nothing was sent");
        }
        ASSERT(active_.size() < target_.options.max_connections);
        active_.emplace(transfer.easy(), Active{std::move(idle_.back()), permit});
        idle_.pop_back();
        return {};
    }

    Outcome paused_outcome() const {
        Outcome outcome =
            not_attempted("DESTINATION_PAUSED", fmt::format("{} failed {} times in a row; sending to it is paused",
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
        const auto change = breaker_.ended(permit, !failed, clock_.now());
        if (change == Breaker::Change::opened) {
            log_.warn("destination paused", {{"sink", "http"},
                                             {"host", target_.host},
                                             {"failures", target_.options.breaker_failures},
                                             {"pause_seconds", to_seconds(breaker_.pause())},
                                             {"last", outcome.detail}});
        } else if (change == Breaker::Change::closed) {
            log_.info("destination resumed", {{"sink", "http"}, {"host", target_.host}});
        }
    }

    /// Whether any transfer had ended.
    bool finish_done() {
        bool any = false;
        int left = 0;
        while (const CURLMsg* done = curl_multi_info_read(multi_.get(), &left)) {
            if (done->msg != CURLMSG_DONE) continue;
            const CURLcode code = done->data.result;  // `done` does not outlive the next call on the multi handle
            CURL* easy = done->easy_handle;
            const Active& active = active_.at(easy);
            Outcome outcome = active.transfer->outcome(code, clock_.wall_now());
            count_for_breaker(active.permit, outcome, *active.transfer->job().message);
            retire(easy).report(std::move(outcome));
            any = true;
        }
        return any;
    }

    /// Puts the transfer back among the idle ones, of which at most max_connections exist.
    Job retire(CURL* easy) {
        curl_multi_remove_handle(multi_.get(), easy);
        idle_.push_back(std::move(active_.extract(easy).mapped().transfer));
        return idle_.back()->job();
    }

    const Target target_;
    Log& log_;

    // Used by the sink's thread only.
    Credentials credentials_;
    bool credentials_are_good_ = true;
    Breaker breaker_;
    Handle<CURLM, curl_multi_cleanup> multi_;  // outlives the handles below; only its wakeup is for all threads
    std::vector<std::unique_ptr<Transfer>> idle_;
    std::unordered_map<CURL*, Active> active_;  // empty once the thread has ended
};

Failure refused(std::string_view what, const Error& error) {
    return permanent(error.code, fmt::format("{} {}", what, error.message));
}

/// What the options send as proof of identity: the values of `Authorization`, and the URL's password.
std::vector<std::string> secrets_of(const HttpSinkOptions& options, const HttpUrl& url) {
    std::vector<std::string> out;
    for (const auto& [name, value] : options.headers) {
        // `token:` of the configuration is here; the secret follows "Bearer".
        if (name == "Authorization") out.push_back(value.substr(value.rfind(' ') + 1));
    }
    if (url.password.empty()) return out;
    out.push_back(base64_encoded(url.user + ":" + url.password));
    out.push_back(url.password);
    return out;
}

/// Failure as of make_http_sink().
Result<Target> make_target(HttpSinkOptions options) {
    const auto url = parse_http_url(options.url);
    if (!url) return refused("the sink's url", url.error());
    for (const auto& [name, value] : options.headers) {
        if (const auto good = check_http_header(name, value); !good) return refused("the sink's", good.error());
    }
    TRY(check_ca_file(options.ca_file));
    if (!options.secret.empty() && !options.secret_file.empty()) {
        return bad_argument("the sink has a secret and a secret_file: give one");
    }
    if (const auto good = check_http_secret(options.secret); !good) return refused("the sink's", good.error());
    if (options.breaker_failures < 0 || options.breaker_pause <= Duration::zero()) {
        return bad_argument("the sink's breaker_failures must be 0 or more and its breaker_pause above 0");
    }
    if (options.max_connections == 0) return bad_argument("the sink's max_connections is 0: allow at least 1");
    auto secrets = secrets_of(options, *url);
    return Target{std::move(options), fmt::format("{}:{}", url->host, url->port), url->scheme == "https",
                  std::move(secrets)};
}

}  // namespace

Result<std::unique_ptr<Sink>> make_http_sink(HttpSinkOptions options, Log& log) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK) return permanent("bad_library", "libcurl could not be initialised");
    TRY_ASSIGN(auto target, make_target(std::move(options)));
    return start_sink<HttpSink>("HTTP", std::move(target), log);
}

}  // namespace deliverd::sink
