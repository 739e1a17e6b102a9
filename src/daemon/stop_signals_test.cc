#include "daemon/stop_signals.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <future>

namespace deliverd::daemon {
namespace {

constexpr auto kSignalPatience = std::chrono::seconds(20);

TEST(StopSignals, WaitsForTheFirstAndRunsTheActionOfTheSecond) {
    StopSignals signals;
    EXPECT_FALSE(signals.wait_for(Duration::zero()));
    std::promise<void> second;
    auto came = second.get_future();
    signals.on_signal(2, [&second] { second.set_value(); });
    kill(getpid(), SIGTERM);
    EXPECT_TRUE(signals.wait_for(kSignalPatience));
    EXPECT_EQ(came.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    kill(getpid(), SIGINT);
    EXPECT_EQ(came.wait_for(kSignalPatience), std::future_status::ready);
    bool at_once = false;
    signals.on_signal(1, [&at_once] { at_once = true; });
    EXPECT_TRUE(at_once) << "it has come already";
}

TEST(StopSignals, ADroppedActionDoesNotRun) {
    StopSignals signals;
    bool ran = false;
    signals.on_signal(1, [&ran] { ran = true; });
    signals.clear_actions();
    kill(getpid(), SIGHUP);
    signals.wait();
    EXPECT_FALSE(ran);
}

TEST(StopSignals, EndsWithoutASignal) {
    {
        const StopSignals signals;
    }
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
    EXPECT_EQ(sigpending(&blocked), 0);
    EXPECT_EQ(sigismember(&blocked, SIGTERM), 0) << "its own signal is gone with its thread";
}

}  // namespace
}  // namespace deliverd::daemon
