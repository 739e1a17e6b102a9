#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sink/http/http_sink.h"
#include "sink/http/testing/fault_server.h"
#include "sink/http/testing/tls_server.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

constexpr std::size_t kTogether = 5;

std::unique_ptr<Sink> sink_to(const FaultServer& server, bool verify_tls, const std::string& ca_file = "") {
    static NullLog log;
    HttpSinkOptions options;
    options.url = server.url("https");
    options.verify_tls = verify_tls;
    options.ca_file = ca_file;
    options.timeout = kTestPatience;
    options.connect_timeout = kTestPatience;
    auto made = make_http_sink(std::move(options), log);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
}

TEST(HttpTls, ASelfSignedCertificateIsRefusedAndNothingIsSent) {
    const auto context = make_tls_context();
    std::atomic<int> requests = 0;
    const FaultServer server([&](Peer& peer) {
        H2Peer h2(context.get(), peer.fd());
        while (h2.next_request()) ++requests;
    });
    const auto http = sink_to(server, true);
    const auto outcome = send_one(*http, test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr("TLS certificate"));
    const auto check = http->check(kTestPatience);
    ASSERT_FALSE(check);
    EXPECT_THAT(check.error().message, HasSubstr("certificate"));
    EXPECT_EQ(requests, 0);
}

/// A file in the temporary folder for as long as it lives.
class TemporaryFile {
public:
    TemporaryFile(const std::string& name, std::string_view text)
        : path_(std::filesystem::temp_directory_path() / ("deliverd_" + name + "_" + std::to_string(::getpid()))) {
        std::ofstream(path_, std::ios::trunc) << text;
    }
    ~TemporaryFile() { remove(); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    void remove() const { std::filesystem::remove(path_); }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

void answer_each(SSL_CTX* context, Peer& peer) {
    H2Peer h2(context, peer.fd());
    while (const auto stream = h2.next_request()) h2.answer_200(*stream);
}

TEST(HttpTls, ItsOwnAuthorityIsAccepted) {
    const auto context = make_tls_context();
    const FaultServer server([&](Peer& peer) { answer_each(context.get(), peer); });
    const TemporaryFile authority("ca", certificate_pem(context.get()));
    const auto http = sink_to(server, true, authority.path());
    const auto outcome = send_one(*http, test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    EXPECT_TRUE(http->check(kTestPatience));

    authority.remove();
    const auto gone = http->check(kTestPatience);
    ASSERT_FALSE(gone);
    EXPECT_THAT(gone.error().message, HasSubstr(authority.path()));
}

TEST(HttpTls, ACertificateOfAnotherAuthorityIsRefused) {
    const auto context = make_tls_context();
    const FaultServer server([&](Peer& peer) { answer_each(context.get(), peer); });
    const TemporaryFile another("other_ca", certificate_pem(make_tls_context().get()));
    const auto outcome = send_one(*sink_to(server, true, another.path()), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_THAT(outcome.detail, HasSubstr("TLS certificate"));
}

TEST(HttpTls, ACaFileThatCannotBeReadIsRefusedAtOnce) {
    NullLog log;
    HttpSinkOptions options;
    options.url = "https://127.0.0.1/";
    const TemporaryFile empty("empty_ca", "");
    for (const std::string& path : {std::string("/nowhere/ca.pem"), std::string("/"), empty.path()}) {
        options.ca_file = path;
        const auto made = make_http_sink(options, log);
        ASSERT_FALSE(made) << path;
        EXPECT_EQ(made.error().code, "bad_argument");
        EXPECT_THAT(made.error().message, HasSubstr("ca_file " + path + " "));
    }
}

TEST(HttpTls, AReceiverThatDoesNotSpeakTlsGetsNothing) {
    const FaultServer server([](Peer& peer) {
        peer.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        peer.wait_until_closed();
    });
    const auto outcome = send_one(*sink_to(server, true), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable) << outcome.detail;
    EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
}

/// Answers nobody before `kTogether` requests have come in on one connection.
TEST(HttpTls, RequestsShareOneHttp2Connection) {
    const auto context = make_tls_context();
    const FaultServer server([&](Peer& peer) {
        H2Peer h2(context.get(), peer.fd());
        std::vector<std::uint32_t> streams;
        while (const auto stream = h2.next_request()) {
            streams.push_back(*stream);
            if (streams.size() < kTogether) continue;
            for (const auto waiting : streams) h2.answer_200(waiting);
            streams.clear();
        }
    });
    const auto http = sink_to(server, false);
    std::vector<Message> messages;
    for (std::size_t i = 0; i < kTogether; ++i) messages.push_back(test_message(static_cast<int>(i)));
    Collector collector;
    http->send(pointers_to(messages), collector);
    ASSERT_TRUE(collector.wait_for(kTogether));
    for (const auto& message : messages) {
        const auto outcome = collector.of(message.id).front();
        EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    }
    EXPECT_EQ(server.accepts(), 1);
}

}  // namespace
}  // namespace deliverd::sink
