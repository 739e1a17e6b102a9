#include "sink/nats/nats_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/text.h"
#include "base/try.h"
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
    // libnats also takes an address without a scheme, which does not say whether TLS is meant.
    if (!right_scheme) return bad_argument("does not start with nats:// or tls://");
    const auto host = server.rfind('@');
    if (host != std::string_view::npos) return parse_server_url("nats://" + std::string(server.substr(host + 1)));
    return parse_server_url(server);
}

/// What libnats gives back to each callback of a connection. It runs them on threads of its own, in the background even
/// after a close, so the reader may not go before the last of them.
struct Listener {
    AnswerReader* reader;             // null: nothing was published, and the reader must not be called
    std::atomic<int> last_calls = 2;  // still to come: on_closed() and on_complete()
};

void let_go(Listener* listener) {
    if (--listener->last_calls > 0) return;
    if (listener->reader != nullptr) listener->reader->on_end();
    delete listener;
}

void on_message(natsConnection* connection, natsSubscription*, natsMsg* raw, void* listener) {
    const NatsMessage message(raw);
    static_cast<Listener*>(listener)->reader->on_answer(connection, raw);
}

void on_complete(void* listener) {
    let_go(static_cast<Listener*>(listener));
}

void on_error(natsConnection*, natsSubscription*, natsStatus status, void* listener) {
    // Without a handler, also where nobody listens, libnats prints to standard error.
    const char* said = listener != nullptr && status == NATS_NOT_PERMITTED ? nats_GetLastError(nullptr) : nullptr;
    const std::string_view subject = said == nullptr ? std::string_view() : refused_subject(said);
    if (!subject.empty()) static_cast<Listener*>(listener)->reader->on_refusal(subject);
}

void on_closed(natsConnection*, void* listener) {
    if (listener != nullptr) let_go(static_cast<Listener*>(listener));
}

Result<Options> make_options(const NatsSinkOptions& options, std::string_view token, Duration limit,
                             Listener* listener) {
    natsOptions* raw = nullptr;
    if (natsOptions_Create(&raw) != NATS_OK) return retryable("no_resources", "libnats could not be started");
    Options made(raw);
    std::string problem;
    const auto check = [&](std::string_view what, natsStatus status) {
        if (status == NATS_OK || !problem.empty()) return;
        problem = fmt::format("the sink's {} cannot be used: {}", what, natsStatus_GetText(status));
    };
    const auto servers = comma_separated(options.url);
    const auto share = std::min(options.connect_timeout, limit / static_cast<std::int64_t>(servers.size()));
    check("url", natsOptions_SetURL(raw, options.url.c_str()));
    check("name", natsOptions_SetName(raw, "deliverd"));
    // See the header.
    check("reconnect", natsOptions_SetAllowReconnect(raw, false));
    check("connect_timeout", natsOptions_SetTimeout(raw, milliseconds(share)));
    check("ping interval", natsOptions_SetPingInterval(raw, milliseconds(kPingInterval)));
    check("pings", natsOptions_SetMaxPingsOut(raw, kMaxPingsOut));
    // A server that reads nothing would otherwise hold up the sink's thread, and with it every stop.
    check("timeout", natsOptions_SetWriteDeadline(raw, milliseconds(options.timeout)));
    check("error handler", natsOptions_SetErrorHandler(raw, &on_error, listener));
    check("closed handler", natsOptions_SetClosedCB(raw, &on_closed, listener));
    if (std::ranges::any_of(servers, [](auto server) { return server.starts_with(kTls); })) {
        check("tls", natsOptions_SetSecure(raw, true));
    }
    if (const auto& file = options.ca_file; !file.empty()) {
        check("ca_file", natsOptions_LoadCATrustedCertificates(raw, file.c_str()));
    }
    if (!options.verify_tls) check("verify_tls", natsOptions_SkipServerVerification(raw, true));
    if (const auto& file = options.credentials_file; !file.empty()) {
        check("credentials_file", natsOptions_SetUserCredentialsFromFiles(raw, file.c_str(), nullptr));
    }
    if (!token.empty()) check("token_file", natsOptions_SetToken(raw, std::string(token).c_str()));
    if (!problem.empty()) return bad_argument(problem);
    return made;
}

Failure cannot_connect(natsStatus status, const std::string& hosts) {
    // libnats' own words on a failed handshake name no secret; its other texts may repeat the URL.
    const char* words = status == NATS_SSL_ERROR ? nats_GetLastError(nullptr) : nullptr;
    const std::string said = one_line(words != nullptr && *words != '\0' ? words : natsStatus_GetText(status));
    switch (status) {
        case NATS_CONNECTION_AUTH_FAILED:
        case NATS_NOT_PERMITTED:
            return retryable("UNAUTHORIZED",
                             fmt::format("NATS at {} refused user, password, token or credentials: {}", hosts, said));
        case NATS_SSL_ERROR:
        case NATS_SECURE_CONNECTION_WANTED:
        case NATS_SECURE_CONNECTION_REQUIRED:
            return retryable(std::string(kBrokerUnreachable),
                             fmt::format("no TLS with NATS at {}: {}; check tls:// in the url, ca_file and verify_tls",
                                         hosts, said));
        default:
            return retryable(
                std::string(kBrokerUnreachable),
                fmt::format("cannot connect to NATS at {}: {}; check that the server runs, and the url", hosts, said));
    }
}

/// Tries the URL's servers, each for at most its share of `limit`; blocks. `listener` may be null.
Result<NatsConnection> connect_to_nats(const NatsSinkOptions& options, std::string_view token, Duration limit,
                                       Listener* listener) {
    TRY_ASSIGN(const auto made, make_options(options, token, limit, listener));
    natsConnection* raw = nullptr;
    const auto status = natsConnection_Connect(&raw, made.get());
    NatsConnection connection(raw);
    if (status != NATS_OK) return cannot_connect(status, nats_hosts(options.url));
    return connection;
}

constexpr Duration kNoLimit = std::chrono::hours(24);  // connect_timeout is one

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

Result<void> check_jetstream(const NatsSinkOptions& options, std::string_view token, Duration limit) {
    const SystemClock clock;
    const auto until = clock.now() + limit;
    TRY_ASSIGN(const auto connection, connect_to_nats(options, token, limit, nullptr));
    natsMsg* raw = nullptr;
    const auto status =
        natsConnection_RequestString(&raw, connection.get(), "$JS.API.INFO", "", milliseconds(until - clock.now()));
    const NatsMessage answer(raw);
    const std::string problem =
        status == NATS_OK
            ? jetstream_problem({natsMsg_GetData(raw), static_cast<std::size_t>(natsMsg_GetDataLength(raw))})
            : natsStatus_GetText(status);
    if (problem.empty()) return {};
    return retryable(
        "JETSTREAM_UNAVAILABLE",
        fmt::format("JetStream does not answer: {}; check that it is enabled for this server and account", problem));
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
    auto listener = std::make_unique<Listener>(&reader);
    auto connection = connect_to_nats(options, token, kNoLimit, listener.get());
    if (!connection) return Failure(connection.error());  // libnats calls on_closed() only for one that was made
    Listener* const held = listener.release();            // let_go() deletes it
    auto link = std::make_unique<Link>();
    link->connection = std::move(*connection);
    link->max_payload = natsConnection_GetMaxPayload(link->connection.get());
    natsInbox* inbox = nullptr;
    natsSubscription* answers = nullptr;
    auto status = natsInbox_Create(&inbox);
    if (status == NATS_OK) {
        link->inbox = inbox;
        natsInbox_Destroy(inbox);
        status =
            natsConnection_Subscribe(&answers, link->connection.get(), (link->inbox + ".*").c_str(), &on_message, held);
        link->answers.reset(answers);
    }
    // Their number is bounded by what is under way.
    if (status == NATS_OK) status = natsSubscription_SetPendingLimits(answers, -1, -1);
    // Last: a link without it is not returned, and nothing was published that could be answered.
    if (status == NATS_OK) status = natsSubscription_SetOnCompleteCB(answers, &on_complete, held);
    if (status == NATS_OK) return link;
    held->reader = nullptr;
    link.reset();
    on_complete(held);
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("NATS at {}: {}", nats_hosts(options.url), natsStatus_GetText(status)));
}

}  // namespace deliverd::sink
