#include "sink/nats/nats_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/try.h"
#include "sink/handle.h"
#include "sink/nats/nats_message.h"
#include "sink/nats/outcomes.h"
#include "sink/secret_file.h"
#include "sink/server_url.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

// A server that stopped answering is noticed after two pings without an answer.
constexpr Duration kPingInterval = std::chrono::seconds(5);
constexpr int kMaxPingsOut = 2;
constexpr std::string_view kPlain = "nats://";
constexpr std::string_view kTls = "tls://";

using Options = Handle<natsOptions, natsOptions_Destroy>;

std::int64_t milliseconds(Duration span) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
    return std::clamp<std::int64_t>(count, 1, 24L * 3600 * 1000);
}

/// Without user and password, which libnats takes as they are written: percent-encoding changes them.
Result<ServerUrl> place_of(std::string_view server) {
    const bool right_scheme = server.starts_with(kTls) || server.starts_with(kPlain);
    if (!right_scheme) return bad_argument("does not start with nats:// or tls://");
    const auto host = server.rfind('@');
    if (host != std::string_view::npos) return parse_server_url("nats://" + std::string(server.substr(host + 1)));
    return parse_server_url(server);
}

void ignore_error(natsConnection*, natsSubscription*, natsStatus, void*) {
    // Without a handler libnats prints to standard error. Errors are checked where they matter.
}

struct Setting {
    natsStatus status;
    std::string_view what;
};

Result<Options> make_options(const NatsSinkOptions& options, std::string_view token, Duration limit,
                             const NatsEvents& events) {
    natsOptions* raw = nullptr;
    if (natsOptions_Create(&raw) != NATS_OK) return retryable("no_resources", "libnats could not be started");
    Options made(raw);
    const auto servers = comma_separated(options.url);
    const auto share = std::min(options.connect_timeout, limit / static_cast<std::int64_t>(servers.size()));
    std::vector<Setting> done{
        {natsOptions_SetURL(raw, options.url.c_str()), "url"},
        {natsOptions_SetName(raw, "deliverd"), "name"},
        {natsOptions_SetAllowReconnect(raw, false), "reconnect"},
        {natsOptions_SetTimeout(raw, milliseconds(share)), "connect_timeout"},
        {natsOptions_SetPingInterval(raw, milliseconds(kPingInterval)), "ping interval"},
        {natsOptions_SetMaxPingsOut(raw, kMaxPingsOut), "pings"},
        {natsOptions_SetWriteDeadline(raw, milliseconds(options.timeout)), "timeout"},
        {natsOptions_SetErrorHandler(raw, events.on_error != nullptr ? events.on_error : &ignore_error, events.closure),
         "error handler"},
        {natsOptions_SetClosedCB(raw, events.on_closed, events.closure), "closed handler"},
    };
    if (std::ranges::any_of(servers, [](auto server) { return server.starts_with(kTls); })) {
        done.push_back({natsOptions_SetSecure(raw, true), "tls"});
    }
    if (!options.ca_file.empty()) {
        done.push_back({natsOptions_LoadCATrustedCertificates(raw, options.ca_file.c_str()), "ca_file"});
    }
    if (!options.verify_tls) done.push_back({natsOptions_SkipServerVerification(raw, true), "verify_tls"});
    if (!options.credentials_file.empty()) {
        done.push_back({natsOptions_SetUserCredentialsFromFiles(raw, options.credentials_file.c_str(), nullptr),
                        "credentials_file"});
    }
    if (!token.empty()) done.push_back({natsOptions_SetToken(raw, std::string(token).c_str()), "token_file"});
    for (const auto& setting : done) {
        if (setting.status == NATS_OK) continue;
        return bad_argument(
            fmt::format("the sink's {} cannot be used: {}", setting.what, natsStatus_GetText(setting.status)));
    }
    return made;
}

/// libnats' own words on a failed handshake name no secret; its other texts may repeat the URL.
std::string words_of(natsStatus status) {
    const char* said = nats_GetLastError(nullptr);
    const bool tls = status == NATS_SSL_ERROR && said != nullptr && *said != '\0';
    return tls ? one_line(said) : std::string(natsStatus_GetText(status));
}

Failure cannot_connect(natsStatus status, const std::string& hosts) {
    const std::string said = words_of(status);
    switch (status) {
        case NATS_CONNECTION_AUTH_FAILED:
        case NATS_NOT_PERMITTED:
            return retryable("UNAUTHORIZED",
                             fmt::format("NATS at {} refused user, password, token or credentials: {}", hosts, said));
        case NATS_SSL_ERROR:
        case NATS_SECURE_CONNECTION_WANTED:
        case NATS_SECURE_CONNECTION_REQUIRED:
            return retryable(
                std::string(kBrokerUnreachable),
                fmt::format("no TLS with NATS at {}: {}; see tls:// in the url, ca_file and verify_tls", hosts, said));
        default:
            return retryable(std::string(kBrokerUnreachable),
                             fmt::format("cannot connect to NATS at {}: {}; is the server running, and the url right?",
                                         hosts, said));
    }
}

constexpr Duration kNoLimit = std::chrono::hours(24);  // connect_timeout is one

/// Held by every callback of a connection; the reader learns of the end when the last one is gone.
class Listener {
public:
    explicit Listener(AnswerReader& reader) : reader_(&reader) {}
    ~Listener() {
        if (reader_ != nullptr) reader_->on_end();
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    [[nodiscard]] AnswerReader& reader() const { return *reader_; }
    /// Nothing was published: the reader must not be called. Only while someone else holds this too.
    void forget_reader() { reader_ = nullptr; }

private:
    AnswerReader* reader_;
};
using Held = std::shared_ptr<Listener>;

void on_message(natsConnection* connection, natsSubscription*, natsMsg* raw, void* held) {
    const NatsMessage message(raw);
    (*static_cast<Held*>(held))->reader().on_answer(connection, raw);
}

void on_complete(void* held) {
    delete static_cast<Held*>(held);
}

void on_error(natsConnection*, natsSubscription*, natsStatus status, void* held) {
    natsStatus last = NATS_OK;
    const char* said = status == NATS_NOT_PERMITTED ? nats_GetLastError(&last) : nullptr;
    const std::string_view subject = said == nullptr ? std::string_view() : refused_subject(said);
    if (!subject.empty()) (*static_cast<Held*>(held))->reader().on_refusal(subject);
}

void on_closed(natsConnection*, void* held) {
    delete static_cast<Held*>(held);
}

}  // namespace

std::string nats_hosts(std::string_view url) {
    std::string out;
    for (const auto server : comma_separated(url)) {
        const auto parts = place_of(server);
        if (!out.empty()) out += ", ";
        out += parts ? parts->place() : "?";
    }
    return out;
}

Result<void> check_nats_options(const NatsSinkOptions& options) {
    for (const auto server : comma_separated(options.url)) {
        const auto parts = place_of(server);
        if (!parts || !parts->path.empty()) {
            return bad_argument(
                "the sink's url cannot be used: write nats://HOST:PORT or tls://HOST:PORT, several "
                "separated by commas");
        }
    }
    if (!options.credentials_file.empty() && !options.token_file.empty()) {
        return bad_argument("the sink has a credentials_file and a token_file: a server takes one");
    }
    if (options.timeout <= Duration::zero() || options.connect_timeout <= Duration::zero()) {
        return bad_argument("the sink's timeout and connect_timeout must be above 0");
    }
    return check_ca_file(options.ca_file);
}

Result<NatsConnection> connect_to_nats(const NatsSinkOptions& options, std::string_view token, Duration limit,
                                       const NatsEvents& events) {
    TRY_ASSIGN(const auto made, make_options(options, token, limit, events));
    natsConnection* raw = nullptr;
    const auto status = natsConnection_Connect(&raw, made.get());
    NatsConnection connection(raw);
    if (status != NATS_OK) return cannot_connect(status, nats_hosts(options.url));
    return connection;
}

Result<void> ask_for_jetstream(natsConnection* connection, Duration limit) {
    natsMsg* raw = nullptr;
    const auto status = natsConnection_RequestString(&raw, connection, "$JS.API.INFO", "", milliseconds(limit));
    std::string problem = status == NATS_OK ? std::string() : natsStatus_GetText(status);
    if (status == NATS_OK) {
        problem = jetstream_problem({natsMsg_GetData(raw), static_cast<std::size_t>(natsMsg_GetDataLength(raw))});
    }
    natsMsg_Destroy(raw);
    if (problem.empty()) return {};
    return retryable("JETSTREAM_UNAVAILABLE",
                     fmt::format("JetStream does not answer: {}; is it enabled for this server and account?", problem));
}

std::string_view refused_subject(std::string_view complaint) {
    constexpr std::string_view kBefore = "Permissions Violation for Publish to \"";
    const auto at = complaint.find(kBefore);
    if (at == std::string_view::npos) return {};
    const auto rest = complaint.substr(at + kBefore.size());
    const auto end = rest.rfind('"');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

Result<std::unique_ptr<Link>> open_link(const NatsSinkOptions& options, std::string_view token, AnswerReader& reader) {
    const auto listener = std::make_shared<Listener>(reader);
    Held* const for_events = std::make_unique<Held>(listener).release();  // on_closed() deletes it
    auto connection = connect_to_nats(options, token, kNoLimit,
                                      {.on_error = &on_error, .on_closed = &on_closed, .closure = for_events});
    if (!connection) {
        listener->forget_reader();
        on_closed(nullptr, for_events);  // libnats calls it only for a connection that was made
        return Failure(connection.error());
    }
    auto link = std::make_unique<Link>();
    link->connection = std::move(*connection);
    link->max_payload = natsConnection_GetMaxPayload(link->connection.get());
    Held* const for_answers = std::make_unique<Held>(listener).release();  // on_complete() deletes it
    natsInbox* inbox = nullptr;
    natsSubscription* answers = nullptr;
    auto status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        link->inbox = inbox;
        natsInbox_Destroy(inbox);
        status = natsConnection_Subscribe(&answers, link->connection.get(), (link->inbox + ".*").c_str(), &on_message,
                                          for_answers);
        link->answers.reset(answers);
    }
    // Their number is bounded by what is under way.
    if (status == NATS_OK) status = natsSubscription_SetPendingLimits(answers, -1, -1);
    // Last: a link without it is not returned, and nothing was published that could be answered.
    if (status == NATS_OK) status = natsSubscription_SetOnCompleteCB(answers, &on_complete, for_answers);
    if (status == NATS_OK) return link;
    listener->forget_reader();
    link.reset();
    on_complete(for_answers);
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("NATS at {}: {}", nats_hosts(options.url), natsStatus_GetText(status)));
}

}  // namespace deliverd::sink
