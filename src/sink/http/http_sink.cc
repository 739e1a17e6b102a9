#include "sink/http/http_sink.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <exception>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "sink/http/transfer.h"
#include "sink/secret_file.h"

namespace deliverd::sink {

namespace {

constexpr int kIdlePollMs = 60'000;  // woken earlier by whatever there is to do
constexpr Duration kLongestPatience = std::chrono::hours(24);

struct MultiDeleter {
    void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

/// Also a permanent refusal when the file goes missing later: a person has to put it back.
Result<void> check_ca_file(const std::string& path) {
    if (path.empty()) return {};
    std::ifstream file(path);
    if (file.good() && file.peek() != std::ifstream::traits_type::eof()) return {};
    return permanent("bad_argument", fmt::format("the sink's ca_file {} is empty or cannot be read: name a file with "
                                                 "the certificate authority in PEM",
                                                 path));
}

struct Job {
    const Message* message;
    OutcomeReceiver* receiver;
};

/// Of what kept a message from being started.
Outcome to_outcome(const Error& error) {
    Outcome outcome;
    outcome.kind = error.error_class == ErrorClass::permanent ? OutcomeKind::permanent : OutcomeKind::retryable;
    outcome.code = error.code;
    outcome.detail = shorten(one_line(error.message), kMaxDetailBytes);
    outcome.not_attempted = outcome.kind == OutcomeKind::retryable;
    return outcome;
}

Outcome stopped_outcome(OutcomeKind kind, std::string_view detail) {
    return Outcome{kind, "STOPPED", std::string(detail), std::nullopt, std::nullopt};
}

class HttpSink final : public Sink {
public:
    HttpSink(Target target, Log& log)
        : target_(std::move(target)), log_(log), token_(target_.options.token_file, kToken), multi_(curl_multi_init()) {
        if (!multi_) throw std::bad_alloc();
        const auto connections = static_cast<long>(target_.options.max_connections);
        curl_multi_setopt(multi_.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, connections);
        curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS, connections);
        curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
        thread_ = std::thread([this] { run(); });
    }
    ~HttpSink() override { HttpSink::stop(Duration::zero()); }
    HttpSink(const HttpSink&) = delete;
    HttpSink& operator=(const HttpSink&) = delete;

    void send(std::span<const Message* const> messages, OutcomeReceiver& receiver) override {
        {
            const std::lock_guard lock(mutex_);
            if (!stop_at_) {
                for (const auto* message : messages) incoming_.push_back({message, &receiver});
                curl_multi_wakeup(multi_.get());
                return;
            }
        }
        for (const auto* message : messages) {
            receiver.on_outcome(*message,
                                stopped_outcome(OutcomeKind::retryable, "the sink was stopped; nothing was sent"));
        }
    }

    void stop(Duration patience) override {
        {
            const std::lock_guard lock(mutex_);
            const auto deadline = clock_.now() + std::clamp(patience, Duration::zero(), kLongestPatience);
            stop_at_ = stop_at_ ? std::min(*stop_at_, deadline) : deadline;  // a second, less patient call hurries
            curl_multi_wakeup(multi_.get());
        }
        const std::lock_guard joining(join_mutex_);
        if (thread_.joinable()) thread_.join();
    }

    Result<void> check(Duration deadline) override {
        if (const auto readable = check_ca_file(target_.options.ca_file); !readable) return readable;
        if (!target_.options.token_file.empty()) {
            SecretFile token(target_.options.token_file, kToken);  // not the thread's
            if (const auto read = token.read(); !read) return Failure(read.error());
        }
        try {
            const Easy easy = make_easy(target_);
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count();
            std::array<char, CURL_ERROR_SIZE> problem{};
            curl_easy_setopt(easy.get(), CURLOPT_CONNECT_ONLY, 1L);  // connects and, for https, shakes hands
            curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(left, 1)));
            curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, problem.data());
            const CURLcode code = curl_easy_perform(easy.get());
            if (code == CURLE_OK) return {};
            return retryable(
                "NETWORK_TIMEOUT",
                fmt::format("cannot reach {}: {}; is the receiver running, and the URL right?", target_.host,
                            problem.front() != '\0' ? problem.data() : curl_easy_strerror(code)));
        } catch (const std::exception& error) {
            return retryable("NETWORK_TIMEOUT", fmt::format("cannot check {}: {}", target_.host, error.what()));
        }
    }

    [[nodiscard]] std::string_view name() const override { return "http"; }

private:
    void run() {
        sigset_t pipe_signal;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
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

    /// Takes what was sent meanwhile. How long to wait for something to happen; none when it is over.
    std::optional<int> next_wait() {
        const std::lock_guard lock(mutex_);
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
            if (auto started = start(job); !started) {
                job.receiver->on_outcome(*job.message, to_outcome(started.error()));
            }
        }
    }

    Result<void> start(const Job& job) {
        std::string_view token;
        if (!target_.options.token_file.empty()) {
            const auto read = token_.read();
            warn_about_token(read);
            if (!read) return Failure(read.error());
            token = *read;
        }
        if (idle_.empty()) idle_.push_back(std::make_unique<Transfer>(target_));
        auto transfer = std::move(idle_.back());
        idle_.pop_back();
        auto ready = transfer->prepare(*job.message, *job.receiver, token);
        if (ready && curl_multi_add_handle(multi_.get(), transfer->easy()) != CURLM_OK) {
            ready = retryable("NETWORK_TIMEOUT", "libcurl took no further request; nothing was sent");
        }
        if (ready) {
            active_.insert(transfer.release());
        } else {
            idle_.push_back(std::move(transfer));
        }
        return ready;
    }

    /// Once each time the file turns bad, not once a message.
    void warn_about_token(const Result<std::string_view>& read) {
        if (!read && token_is_good_) log_.warn("token file is not usable", {{"error", read.error().message}});
        token_is_good_ = read.has_value();
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
            retire(transfer).report(std::move(outcome));
            any = true;
        }
        return any;
    }

    /// Back among the idle handles: at most max_connections of them exist.
    const Transfer& retire(Transfer* transfer) {
        curl_multi_remove_handle(multi_.get(), transfer->easy());
        active_.erase(transfer);
        idle_.emplace_back(transfer);
        return *transfer;
    }

    void give_up() {
        while (!active_.empty()) {
            retire(*active_.begin())
                .report(stopped_outcome(OutcomeKind::ambiguous, "the sink was stopped before the answer came"));
        }
        for (const auto& job : waiting_) {
            job.receiver->on_outcome(
                *job.message, stopped_outcome(OutcomeKind::ambiguous, "the sink was stopped before this was sent"));
        }
        waiting_.clear();
    }

    const Target target_;
    Log& log_;
    const SystemClock clock_;

    std::mutex mutex_;
    std::deque<Job> incoming_;        // bounded by the caller: at most its `parallelism` are under way
    std::optional<Instant> stop_at_;  // set once stop() was called

    // The thread's own from here on.
    SecretFile token_;
    bool token_is_good_ = true;
    std::unique_ptr<CURLM, MultiDeleter> multi_;  // outlives the handles below; only its wakeup is for all threads
    std::vector<std::unique_ptr<Transfer>> idle_;
    std::unordered_set<Transfer*> active_;  // empty once the thread has ended
    std::deque<Job> waiting_;

    std::mutex join_mutex_;
    std::thread thread_;
};

struct UrlDeleter {
    void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string url_part(CURLU* url, CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
    std::string out(text);
    curl_free(text);
    return out;
}

using Url = std::unique_ptr<CURLU, UrlDeleter>;

Result<Url> parse_url(const std::string& text) {
    if (!text.starts_with("http://") && !text.starts_with("https://")) {
        return permanent("bad_argument", "must start with http:// or https://");
    }
    Url url(curl_url());
    if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK ||
        url_part(url.get(), CURLUPART_HOST).empty()) {
        return permanent("bad_argument",
                         "cannot be used: write http://HOST/PATH or https://HOST:PORT/PATH, with special characters "
                         "percent-encoded");
    }
    return url;
}

Failure refused(std::string_view what, const Error& error) {
    return permanent(error.code, fmt::format("{} {}", what, error.message));
}

Result<Target> make_target(HttpSinkOptions options) {
    const auto url = parse_url(options.url);
    if (!url) return refused("the sink's url", url.error());
    for (const auto& [name, value] : options.headers) {
        if (const auto good = check_http_header(name, value); !good) return refused("the sink's", good.error());
    }
    if (const auto readable = check_ca_file(options.ca_file); !readable) return Failure(readable.error());
    if (options.max_connections == 0)
        return permanent("bad_argument", "the sink's max_connections is 0: allow at least 1");
    Target target;
    target.host = fmt::format("{}:{}", url_part(url->get(), CURLUPART_HOST),
                              url_part(url->get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
    target.is_https = url_part(url->get(), CURLUPART_SCHEME) == "https";
    target.options = std::move(options);
    return target;
}

}  // namespace

Result<void> check_http_url(const std::string& url) {
    if (const auto parsed = parse_url(url); !parsed) return Failure(parsed.error());
    return {};
}

Result<void> check_http_header(std::string_view name, std::string_view value) {
    if (is_header(name, value)) return {};
    return permanent("bad_argument",
                     fmt::format("header '{}' cannot be sent: it has a line break, a control character or a name "
                                 "that may not be set",
                                 shorten(one_line(name), 64)));
}

Result<std::unique_ptr<Sink>> make_http_sink(HttpSinkOptions options, Log& log) {
    static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialised != CURLE_OK) return permanent("bad_library", "libcurl could not be initialised");
    auto target = make_target(std::move(options));
    if (!target) return Failure(target.error());
    try {
        return std::make_unique<HttpSink>(std::move(*target), log);
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start the HTTP sink: {}", error.what()));
    }
}

}  // namespace deliverd::sink
