#include "sink/nats/nats_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <vector>

#include "base/text.h"
#include "sink/nats/publish_answer.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

// A server that stopped answering is noticed after two pings without an answer.
constexpr Duration kPingInterval = std::chrono::seconds(5);
constexpr int kMaxPingsOut = 2;
constexpr std::string_view kTls = "tls://";
constexpr std::string_view kPlain = "nats://";

struct OptionsDeleter {
    void operator()(natsOptions* options) const { natsOptions_Destroy(options); }
};
using Options = std::unique_ptr<natsOptions, OptionsDeleter>;

std::int64_t milliseconds(Duration span) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
    return std::clamp<std::int64_t>(count, 1, 24L * 3600 * 1000);
}

std::vector<std::string_view> servers_of(std::string_view url) {
    std::vector<std::string_view> out;
    for (std::size_t from = 0; from <= url.size();) {
        const auto comma = std::min(url.find(',', from), url.size());
        out.push_back(url.substr(from, comma - from));
        from = comma + 1;
    }
    return out;
}

bool starts_with_scheme(std::string_view server) {
    return server.starts_with(kTls) || server.starts_with(kPlain);
}

/// What follows the scheme and the user.
std::string_view host_of(std::string_view server) {
    server.remove_prefix(std::min(server.find("//") + 2, server.size()));
    const auto at = server.rfind('@');
    return at == std::string_view::npos ? server : server.substr(at + 1);
}

bool is_host(std::string_view host) {
    const auto bracket = host.rfind(']');
    const auto colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
    const auto name = host.substr(0, colon);
    const auto is_name = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_' || c == '[' ||
               c == ']' || c == ':';
    };
    if (name.empty() || !std::ranges::all_of(name, is_name)) return false;
    if (colon == std::string_view::npos) return true;
    const auto port = host.substr(colon + 1);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return !port.empty() && port.size() <= 5 && std::ranges::all_of(port, is_digit);
}

Result<void> check_file(std::string_view setting, const std::string& path) {
    if (path.empty()) return {};
    std::ifstream file(path);
    if (file.good() && file.peek() != std::ifstream::traits_type::eof()) return {};
    return permanent("bad_argument", fmt::format("the sink's {} {} is empty or cannot be read", setting, path));
}

void ignore_error(natsConnection*, natsSubscription*, natsStatus, void*) {
    // Without a handler libnats prints to standard error. What matters is asked for where it matters.
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
    const auto servers = servers_of(options.url);
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
        return permanent("bad_argument", fmt::format("the sink's {} cannot be used: {}", setting.what,
                                                     natsStatus_GetText(setting.status)));
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

}  // namespace

std::string nats_hosts(std::string_view url) {
    std::string out;
    for (const auto server : servers_of(url)) {
        if (!out.empty()) out += ", ";
        out += host_of(server);
    }
    return out;
}

Result<void> check_nats_options(const NatsSinkOptions& options) {
    for (const auto server : servers_of(options.url)) {
        if (!starts_with_scheme(server) || !is_host(host_of(server))) {
            return permanent("bad_argument",
                             "the sink's url cannot be used: write nats://HOST:PORT or tls://HOST:PORT, several "
                             "separated by commas, with special characters percent-encoded");
        }
    }
    if (!options.credentials_file.empty() && !options.token_file.empty()) {
        return permanent("bad_argument", "the sink has a credentials_file and a token_file: a server takes one");
    }
    if (options.timeout <= Duration::zero() || options.connect_timeout <= Duration::zero()) {
        return permanent("bad_argument", "the sink's timeout and connect_timeout must be above 0");
    }
    return check_file("ca_file", options.ca_file);
}

Result<NatsConnection> connect_to_nats(const NatsSinkOptions& options, std::string_view token, Duration limit,
                                       const NatsEvents& events) {
    const auto made = make_options(options, token, limit, events);
    if (!made) return Failure(made.error());
    natsConnection* raw = nullptr;
    const auto status = natsConnection_Connect(&raw, made->get());
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

}  // namespace deliverd::sink
