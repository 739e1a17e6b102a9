#include "store/postgres/connection/refusal.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "store/postgres/connection/connection.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::seconds kPatience{20};

const WaitLimit kNoLimit;

Result<std::unique_ptr<Connection>> connect(const std::string& conninfo) {
    const SessionSettings settings{kPatience, kPatience, kPatience};
    return Connection::open(conninfo, settings, std::chrono::steady_clock::now() + kPatience, kNoLimit);
}

/// Speaks just enough of the protocol to ask one client for a password and refuse it.
class PasswordServer {
public:
    PasswordServer() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 1) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            ADD_FAILURE() << "no port for the test";
        }
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~PasswordServer() {
        thread_.join();
        ::close(listener_);
    }
    PasswordServer(const PasswordServer&) = delete;
    PasswordServer& operator=(const PasswordServer&) = delete;

    [[nodiscard]] std::string conninfo() const {
        return "host=127.0.0.1 user=ann dbname=app sslmode=disable gssencmode=disable passfile=/no/such/file port=" +
               std::to_string(port_);
    }

private:
    void serve() const {
        const int client = ::accept(listener_, nullptr, nullptr);
        std::array<char, 1024> buffer{};
        constexpr std::string_view kAskPassword{"R\0\0\0\x08\0\0\0\x03", 9};
        const std::string fields = "SFATAL\0VFATAL\0C28P01\0Mno entry\0Fauth.c\0L1\0Rauth_failed\0\0"s;
        const std::string refusal =
            std::string("E\0\0\0", 4) + static_cast<char>(fields.size() + sizeof(std::int32_t)) + fields;
        if (::recv(client, buffer.data(), buffer.size(), 0) > 0 &&
            ::send(client, kAskPassword.data(), kAskPassword.size(), MSG_NOSIGNAL) > 0 &&
            ::recv(client, buffer.data(), buffer.size(), 0) > 0) {
            ::send(client, refusal.data(), refusal.size(), MSG_NOSIGNAL);
        }
        ::close(client);
    }

    int listener_;
    int port_ = 0;
    std::thread thread_;
};

TEST(Refusal, AWrongPasswordSaysWhereToLookAndStaysRetryable) {
    const PasswordServer server;
    const auto connection = connect(server.conninfo() + " password=s3cret");
    ASSERT_FALSE(connection);
    EXPECT_EQ(connection.error().error_class, ErrorClass::retryable);
    EXPECT_EQ(connection.error().code, "db_unreachable");
    EXPECT_THAT(connection.error().message, HasSubstr("FATAL:  no entry; check the user and the password"));
    EXPECT_THAT(connection.error().message, Not(::testing::AnyOf(HasSubstr("s3cret"), HasSubstr("auth.c"))));
}

TEST(Refusal, AMissingPasswordIsAskedFor) {
    const PasswordServer server;
    const auto connection = connect(server.conninfo());
    ASSERT_FALSE(connection);
    EXPECT_THAT(connection.error().message, HasSubstr("the server wants a password: give database.password_file"));
}

TEST(Refusal, AMissingDatabaseAndRoleAreNamedWithTheRemedy) {
    const TestDatabase database;
    EXPECT_THAT(connect(database.conninfo() + " dbname=no_such").error().message,
                AllOf(HasSubstr("no_such"), HasSubstr("create the database, or correct its name"),
                      Not(HasSubstr("3D000")), Not(HasSubstr("LOCATION"))));
    EXPECT_THAT(connect(database.conninfo() + " user=no_such").error().message,
                AllOf(HasSubstr("no_such"), HasSubstr("create this role")));
}

TEST(Refusal, WhatCannotWorkIsFoundWithoutConnecting) {
    EXPECT_TRUE(check_readable("postgres://ann@a:1,b:65535/app?sslmode=verify-full"));
    EXPECT_TRUE(check_readable("host=a,b port=5432 sslmode="));
    for (const char* bad : {"postgres://h:s3cret/d", "postgres://h:0/d", "postgres://h:65536/d", "postgres://h:1,h:x/d",
                            "postgres://h/d?sslmode=s", "postgres://h/d?s3cret", "port"}) {
        const auto checked = check_readable(bad);
        ASSERT_FALSE(checked) << bad;
        EXPECT_EQ(checked.error().code, "bad_argument");
        EXPECT_THAT(checked.error().message, Not(HasSubstr("s3cret")));
    }
}

}  // namespace
}  // namespace deliverd::store::postgres
