#include "http/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "http/testing/server_fixture.h"
#include "http/testing/tls_client.h"

namespace deliverd::http {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Tls : public testing::Test {
protected:
    Tls() { files_.write(make_certificate("first")); }
    ~Tls() override { std::filesystem::remove_all(folder_); }

    static std::string make_folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-tls-XXXXXX").string();
        return mkdtemp(pattern.data());
    }

    [[nodiscard]] ServerOptions options() const {
        ServerOptions options;
        options.tls = files_.files;
        return options;
    }

    std::string problem() const {
        const auto loaded = load_tls(files_.files);
        return loaded ? "" : loaded.error().message;
    }

    std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }

    const std::filesystem::path folder_ = make_folder();
    TestTlsFiles files_{folder_};
};

TEST_F(Tls, Versions12And13AreServed) {
    const auto server = serve(options());
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        TlsClient client(server->port(), {.version = version});
        ASSERT_TRUE(client.connected()) << client.reason();
        EXPECT_EQ(SSL_version(client.ssl()), version);
        for (const std::string& path : std::vector<std::string>{"/1", "/2", "/3"}) {
            EXPECT_THAT(client.get(path), HasSubstr("GET " + path));
        }
    }
}

TEST_F(Tls, OlderVersionsAreRefused) {
    const auto server = serve(options());
    for (const int version : {TLS1_VERSION, TLS1_1_VERSION}) {
        const TlsClient client(server->port(), {.version = version});
        EXPECT_FALSE(client.connected());
        EXPECT_THAT(client.reason(), HasSubstr("protocol version"));
    }
}

/// With TLS 1.2: those of TLS 1.3 all have forward secrecy and authenticated encryption.
TEST_F(Tls, WeakCiphersAreRefused) {
    const auto server = serve(options());
    const auto offers = [&](const char* ciphers) {
        TlsClient client(server->port(), {.version = TLS1_2_VERSION, .ciphers = ciphers});
        return client.connected() ? client.get("/a") : client.reason();
    };
    for (const auto* ciphers : {"ECDHE+AESGCM", "ECDHE+CHACHA20"}) {
        EXPECT_THAT(offers(ciphers), HasSubstr("GET /a")) << ciphers;
    }
    for (const auto* ciphers : {"kRSA+AESGCM:@SECLEVEL=0", "ECDHE+AES+SHA1:@SECLEVEL=0", "ECDHE+AES+SHA384:@SECLEVEL=0",
                                "eNULL:@SECLEVEL=0", "aNULL:@SECLEVEL=0"}) {
        EXPECT_THAT(offers(ciphers), HasSubstr("handshake failure")) << ciphers;
    }
}

TEST_F(Tls, LongBodiesPassBothWays) {
    const auto server = serve(options());
    TlsClient client(server->port());
    std::string body(1000 * 1000, 'x');
    for (std::size_t i = 0; i < body.size(); i += 97) body[i] = static_cast<char>('a' + i % 26);
    ASSERT_TRUE(client.send(post(body)));
    const auto response = client.response();
    EXPECT_TRUE(response.ends_with("POST /p  " + body)) << response.size();
    EXPECT_THAT(client.get("/next"), HasSubstr("GET /next"));
}

TEST_F(Tls, PipelinedRequestsAreAnsweredInOrder) {
    const auto server = serve(options());
    TlsClient client(server->port());
    ASSERT_TRUE(client.send(get("/1") + post("two") + get("/3")));
    EXPECT_THAT(client.response(), HasSubstr("GET /1"));
    EXPECT_THAT(client.response(), HasSubstr("POST /p  two"));
    EXPECT_THAT(client.response(), HasSubstr("GET /3"));
}

TEST_F(Tls, TheEndIsSaid) {
    const auto server = serve(options());
    TlsClient client(server->port());
    ASSERT_TRUE(client.send(get("/a", "Connection: close\r\n")));
    EXPECT_THAT(client.response(), HasSubstr("GET /a"));
    EXPECT_TRUE(client.closed_cleanly());
    TlsClient refused(server->port());
    ASSERT_TRUE(refused.send("nonsense\r\n\r\n" + std::string(100000, 'x')));  // it still sends when it is refused
    EXPECT_THAT(refused.response(), StartsWith("HTTP/1.1 400 "));
    EXPECT_TRUE(refused.closed_cleanly());
}

TEST_F(Tls, ClientsNeedACertificateOfTheAuthority) {
    const auto authority = make_certificate("authority");
    const auto stranger = make_certificate("stranger");
    const auto right = make_certificate("right", {.issuer = &authority});
    const auto wrong = make_certificate("wrong", {.issuer = &stranger});
    const auto expired = make_certificate("expired", {.issuer = &authority, .ends_in = -1s});
    files_.files.client_ca_file = in_folder("clients.pem");
    TestTlsFiles::replace(files_.files.client_ca_file, authority.pem());
    std::atomic<int> requests = 0;
    const auto server = serve(options(), Handler([&](const Request& request) {
                                  ++requests;
                                  return echo(request);
                              }));
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        TlsClient known(server->port(), {.version = version, .identity = &right});
        EXPECT_THAT(known.get("/a"), HasSubstr("GET /a")) << known.reason();
        for (const TestCertificate* identity : {static_cast<const TestCertificate*>(nullptr), &wrong, &expired}) {
            TlsClient refused(server->port(), {.version = version, .identity = identity});
            EXPECT_EQ(refused.connected(), version == TLS1_3_VERSION);
            EXPECT_EQ(refused.connected() ? refused.get("/a") : "", "");
            EXPECT_THAT(refused.reason(), HasSubstr("alert"));
        }
    }
    EXPECT_EQ(requests, 2);
}

TEST_F(Tls, SessionsAreResumed) {
    const auto authority = make_certificate("authority");
    const auto known = make_certificate("known", {.issuer = &authority});
    files_.files.client_ca_file = in_folder("clients.pem");
    TestTlsFiles::replace(files_.files.client_ca_file, authority.pem());
    const auto server = serve(options());
    TlsClient first(server->port(), {.identity = &known});
    EXPECT_THAT(first.get("/1"), HasSubstr("GET /1"));
    const std::unique_ptr<SSL_SESSION, void (*)(SSL_SESSION*)> session(SSL_get1_session(first.ssl()), SSL_SESSION_free);
    TlsClient second(server->port(), {.identity = &known, .resumed = session.get()});
    EXPECT_THAT(second.get("/2"), HasSubstr("GET /2"));
    EXPECT_EQ(SSL_session_reused(second.ssl()), 1);
    // The authorities may have changed: whoever comes has to prove itself anew.
    ASSERT_TRUE(server->reload_tls());
    TlsClient third(server->port(), {.identity = &known, .resumed = session.get()});
    EXPECT_THAT(third.get("/3"), HasSubstr("GET /3"));
    EXPECT_EQ(SSL_session_reused(third.ssl()), 0);
}

TEST_F(Tls, NobodyRenegotiates) {
    const auto server = serve(options());
    TlsClient client(server->port(), {.version = TLS1_2_VERSION});
    ASSERT_TRUE(client.connected());
    SSL_renegotiate(client.ssl());
    EXPECT_NE(SSL_do_handshake(client.ssl()), 1);
    EXPECT_THAT(TlsClient(server->port()).get("/a"), HasSubstr("GET /a"));
}

TEST_F(Tls, ReloadIsForNewConnections) {
    const auto server = serve(options());
    TlsClient old(server->port());
    files_.write(make_certificate("second", {.ends_in = 5h}));
    const auto until = server->reload_tls();
    ASSERT_TRUE(until) << until.error().message;
    EXPECT_GT(*until, SystemClock().wall_now() + 4h);
    TlsClient fresh(server->port());
    EXPECT_EQ(fresh.server_name(), "second");
    EXPECT_THAT(fresh.get("/a"), HasSubstr("GET /a"));
    EXPECT_EQ(old.server_name(), "first");
    EXPECT_THAT(old.get("/b"), HasSubstr("GET /b"));
}

TEST_F(Tls, WhatCannotBeReadChangesNothing) {
    const auto server = serve(options());
    TestTlsFiles::replace(files_.files.cert_file, make_certificate("second").pem());  // its key has not come yet
    const auto reloaded = server->reload_tls();
    ASSERT_FALSE(reloaded);
    EXPECT_EQ(reloaded.error().code, "tls_files");
    EXPECT_EQ(TlsClient(server->port()).server_name(), "first");
}

TEST_F(Tls, PlainRequestsAreToldSo) {
    const auto server = serve(options());
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/a")));
    EXPECT_THAT(client.response(), StartsWith("HTTP/1.1 400 "));
    EXPECT_TRUE(client.closed());
}

TEST_F(Tls, HandshakesHaveADeadline) {
    auto hasty = options();
    hasty.header_timeout = 1s;
    const auto server = serve(hasty);
    RawClient silent(server->port());
    RawClient begun(server->port());
    ASSERT_TRUE(begun.send(std::string("\x16\x03\x01\x02\x00\x01", 6)));    // of a ClientHello of 512 bytes
    EXPECT_THAT(TlsClient(server->port()).get("/a"), HasSubstr("GET /a"));  // nobody waits for them
    EXPECT_TRUE(silent.closed());
    EXPECT_TRUE(begun.closed());
    RawClient garbage(server->port());
    ASSERT_TRUE(garbage.send(std::string(100, '\x7f')));
    EXPECT_TRUE(garbage.closed());
    TlsClient idle(server->port());  // after its handshake it has the time for a request
    ASSERT_TRUE(idle.connected());
    EXPECT_TRUE(idle.response().empty());
}

TEST_F(Tls, HandshakesGiveWayWhenPlacesAreFew) {
    auto tight = options();
    tight.max_connections = 2;
    tight.header_timeout = 1h;
    const auto server = serve(tight);
    RawClient first(server->port());
    RawClient second(server->port());
    EXPECT_THAT(TlsClient(server->port()).get("/a"), HasSubstr("GET /a"));
    EXPECT_TRUE(first.closed());
}

TEST_F(Tls, WhoFindsNoPlaceIsToldSo) {
    auto tight = options();
    tight.max_connections = 1;
    Gate gate;
    const auto server = serve(tight, Handler([&](const Request& request) {
                                  gate.pass();
                                  return echo(request);
                              }));
    TlsClient served(server->port());
    ASSERT_TRUE(served.send(get("/a")));
    ASSERT_TRUE(gate.wait_for(1));
    TlsClient late(server->port());
    EXPECT_THAT(late.response(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("TOO_MANY_CONNECTIONS")));
    EXPECT_TRUE(late.closed_cleanly());
    gate.open();
    EXPECT_THAT(served.response(), HasSubstr("GET /a"));
}

TEST_F(Tls, StopAnswersWhatIsUnderWay) {
    Gate gate;
    const auto server = serve(options(), Handler([&](const Request& request) {
                                  gate.pass();
                                  return echo(request);
                              }));
    const RawClient in_handshake(server->port());
    TlsClient idle(server->port());
    TlsClient busy(server->port());
    ASSERT_TRUE(busy.send(get("/a")));
    ASSERT_TRUE(gate.wait_for(1));
    std::thread stopper([&] { server->stop(RawClient::kPatience); });
    EXPECT_TRUE(idle.response().empty());  // closed first
    gate.open();
    EXPECT_THAT(busy.response(), HasSubstr("GET /a"));
    EXPECT_TRUE(busy.closed_cleanly());
    stopper.join();
}

TEST_F(Tls, TheWholeChainIsSent) {
    const auto authority = make_certificate("authority");
    files_.write(make_certificate("leaf", {.issuer = &authority}), authority.pem());
    const auto server = serve(options());
    TlsClient client(server->port());
    EXPECT_EQ(client.server_name(), "leaf");
    EXPECT_EQ(sk_X509_num(SSL_get_peer_cert_chain(client.ssl())), 2);
}

TEST_F(Tls, ValidityIsThatOfTheShortestInTheChain) {
    const auto authority = make_certificate("authority", {.ends_in = 1h, .starts_in = -1h});
    files_.write(make_certificate("leaf", {.issuer = &authority, .ends_in = 10h, .starts_in = -10h}), authority.pem());
    const auto loaded = load_tls(files_.files);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto now = SystemClock().wall_now();
    EXPECT_LT(loaded->valid_until, now + 2h);
    EXPECT_GT(loaded->valid_until, now);
    EXPECT_GT(loaded->valid_from, now - 2h);
    EXPECT_LT(loaded->valid_from, now);
}

TEST_F(Tls, WrongFilesAreNamed) {
    const auto own = make_certificate("own");
    EXPECT_EQ(problem(), "");
    const std::string cert_file = files_.files.cert_file;
    const std::string key_file = files_.files.key_file;
    const auto expect = [&](const std::string& file, const std::string& text, const std::string& what) {
        files_.write(own);
        TestTlsFiles::replace(file, text);
        EXPECT_THAT(problem(), AllOf(StartsWith(file + ": "), HasSubstr(what)));
    };
    expect(cert_file, "", "no certificate");
    expect(cert_file, own.key_pem(), "no certificate");
    expect(cert_file, own.pem().substr(0, 200), "damaged");
    expect(cert_file, own.pem() + own.pem().substr(0, 200), "damaged");
    expect(cert_file, std::string(2 * 1024 * 1024, 'x'), "longer than 1048576 bytes");
    expect(key_file, "", "no private key");
    expect(key_file, own.key_pem("passphrase"), "without a passphrase");
    expect(key_file, make_certificate("other").key_pem(), "is not the key of the certificate in " + cert_file);
    files_.write(own);
    files_.files.client_ca_file = in_folder("clients.pem");
    EXPECT_THAT(problem(), StartsWith(files_.files.client_ca_file + ": No such file"));
    expect(files_.files.client_ca_file, "nothing", "no certificate");
    files_.files.client_ca_file = folder_.string();
    EXPECT_EQ(problem(), folder_.string() + ": is not a file");
    files_.files = {cert_file, in_folder("none"), ""};
    EXPECT_THAT(problem(), StartsWith(in_folder("none") + ": No such file"));
    const auto server = Server::start(options(), echo, plain_error);
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, "tls_files");
}

}  // namespace
}  // namespace deliverd::http
