// What an attempt to connect tells the pool about its server.
#include "store/postgres/connection/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EventLog final : public Log {
public:
    void write(LogLevel, std::string_view event, Fields) override { events.emplace_back(event); }
    std::vector<std::string> events;
};

/// Takes connections and never says a word.
class SilentServer {
public:
    SilentServer() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(::listen(listener_, 5), 0);
        EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
        port_ = ntohs(address.sin_port);
    }
    ~SilentServer() { ::close(listener_); }
    SilentServer(const SilentServer&) = delete;
    SilentServer& operator=(const SilentServer&) = delete;

    [[nodiscard]] std::string conninfo() const { return "postgres://ann@127.0.0.1:" + std::to_string(port_) + "/app"; }

private:
    int listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    int port_ = 0;
};

class PoolAttempts : public ::testing::Test {
protected:
    /// A pool that has reached its server once and keeps asking for new connections.
    std::unique_ptr<Pool> make(Duration wait) {
        PoolOptions options;
        options.refresh_conninfo = [this] { return target_; };
        options.max_connections = 3;
        options.connect_timeout = kPatience;
        options.wait = wait;
        options.session = {kPatience, kPatience, kPatience};
        auto pool = std::make_unique<Pool>(options, log_);
        first_.emplace(conformance::must(pool->borrow(steady_clock::now() + kPatience)));
        return pool;
    }

    TestDatabase database_;
    SilentServer silent_;
    std::string target_ = database_.conninfo();
    EventLog log_;
    std::optional<Borrowed> first_;
};

TEST_F(PoolAttempts, OneThatHadHardlyAnyTimeSaysNothingAboutTheServer) {
    const auto pool = make(kPatience);
    target_ = silent_.conninfo();
    for (int i = 0; i < 5; ++i) {
        const auto hurried = pool->borrow(steady_clock::now() + milliseconds(10));
        ASSERT_FALSE(hurried);
        EXPECT_EQ(hurried.error().code, "db_unreachable");
    }
    target_ = database_.conninfo();
    EXPECT_TRUE(pool->borrow());
    EXPECT_THAT(log_.events, IsEmpty()) << "it was neither lost nor found again";
    first_.reset();
}

TEST_F(PoolAttempts, OneThatHadItsTimeDoes) {
    const auto pool = make(std::chrono::seconds(2));
    target_ = silent_.conninfo();
    EXPECT_FALSE(pool->borrow());
    EXPECT_THAT(log_.events, ElementsAre("database cannot be reached"));
    first_.reset();
}

}  // namespace
}  // namespace deliverd::store::postgres
