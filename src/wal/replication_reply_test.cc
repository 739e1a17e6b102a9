// A reply that the server wants goes out at once. Whether and when a real server wants one is its own affair, so this
// one speaks just enough of the protocol to ask.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>

#include "wal/byte_reader.h"
#include "wal/replication_stream.h"
#include "wal/testing/stream_writer.h"

namespace deliverd::wal {
namespace {

/// A message of the protocol: its kind, the length of the rest with itself, the rest.
std::string frame(char kind, std::string_view body) {
    return StreamWriter(kind).integer(static_cast<std::uint32_t>(body.size() + sizeof(std::uint32_t))).bytes(body);
}

/// Serves one client: starts a stream, sends a keepalive, and keeps what comes back.
class AskingServer {
public:
    AskingServer() : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 1) != 0 ||
            ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            ADD_FAILURE() << "no port for the test";
        }
        port_ = ntohs(address.sin_port);
        thread_ = std::jthread([this] { serve(); });
    }
    ~AskingServer() {
        join();
        if (client_ >= 0) ::close(client_);
        ::close(listener_);
    }
    AskingServer(const AskingServer&) = delete;
    AskingServer& operator=(const AskingServer&) = delete;

    [[nodiscard]] std::string conninfo() const {
        return "host=127.0.0.1 user=ann dbname=app sslmode=disable gssencmode=disable port=" + std::to_string(port_);
    }
    /// The message in the client's answer; waits until it came; empty if none did.
    const std::string& reply() {
        join();
        return reply_;
    }

private:
    void join() {
        if (thread_.joinable()) thread_.join();
    }
    void serve() {
        client_ = ::accept(listener_, nullptr, nullptr);
        const timeval patience{.tv_sec = 20, .tv_usec = 0};
        ::setsockopt(client_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        std::array<char, 4096> buffer{};
        const auto receive = [&] {
            const auto size = ::recv(client_, buffer.data(), buffer.size(), 0);
            return std::string_view(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
        };
        const auto send = [&](const std::string& bytes) { ::send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL); };
        const std::string ready = frame('Z', "I");
        receive();  // who it is
        send(frame('R', std::string_view("\0\0\0\0", 4)) + ready);
        receive();  // the statement that sets the session up: no columns, no rows
        send(frame('T', std::string_view("\0\0", 2)) + frame('C', std::string_view("SELECT 0\0", 9)) + ready);
        receive();  // START_REPLICATION
        send(frame('W', std::string_view("\0\0\0", 3)));
        const auto first = receive();  // the status of the test
        const std::string keepalive =
            StreamWriter('k').integer<Lsn>(0x900).integer<std::int64_t>(0).integer<char>(true);
        if (!first.empty()) send(frame('d', keepalive));
        const auto answer = receive();
        if (answer.size() > 5) reply_ = answer.substr(5);
    }

    int listener_;
    int client_ = -1;
    int port_ = 0;
    std::string reply_;
    std::jthread thread_;
};

TEST(ReplicationReplyTest, AReplyThatIsWantedHasTheConfirmedPosition) {
    AskingServer server;
    const store::WaitLimit no_limit;
    Waker waker;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const ReplicationSettings settings{.conninfo = server.conninfo(), .status_interval = std::chrono::hours(1)};
    const auto opened = ReplicationStream::open(settings, deadline, no_limit, waker);
    ASSERT_TRUE(opened) << opened.error().message;
    ReplicationStream& stream = **opened;
    ASSERT_TRUE(stream.start({.slot = "slot", .publications = {"events"}}, deadline));
    ASSERT_TRUE(stream.status(0x80));
    bool asked = false;
    const auto taken = stream.read(1000, deadline, [&](const StreamMessage& message) -> Result<void> {
        asked = std::get<Keepalive>(message).reply_wanted;
        return {};
    });
    ASSERT_TRUE(taken) << taken.error().message;
    EXPECT_TRUE(asked);
    ASSERT_FALSE(server.reply().empty()) << "nothing came by itself, and close() was not called yet";
    EXPECT_EQ(server.reply().front(), 'r');
    ByteReader reader(std::string_view(server.reply()).substr(1));
    EXPECT_EQ(reader.integer<Lsn>(), 0x900U) << "received";
    EXPECT_EQ(reader.integer<Lsn>(), 0x80U) << "confirmed";
}

}  // namespace
}  // namespace deliverd::wal
