// The failpoints that only test programs link. Each case dies in its own process, which reads DELIVERD_FAILPOINTS
// itself.
#include "base/failpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace deliverd {
namespace {

void pass(const char* setting, const char* name, int times) {
    ::setenv("DELIVERD_FAILPOINTS", setting, 1);
    for (int i = 0; i < times; ++i) failpoint(name);
}

TEST(FailpointDeathTest, CrashesAtTheNthPass) {
    EXPECT_EXIT(pass("lane.after_send=crash@3", "lane.after_send", 3), testing::KilledBySignal(SIGKILL), "");
    EXPECT_EXIT(
        {
            pass("lane.after_send=crash@3", "lane.after_send", 2);
            ::_exit(7);
        },
        testing::ExitedWithCode(7), "");
}

TEST(FailpointDeathTest, OtherPointsAndNoSettingDoNothing) {
    EXPECT_EXIT(
        {
            pass("lane.after_send=crash@1", "lane.after_claim", 5);
            ::_exit(7);
        },
        testing::ExitedWithCode(7), "");
    EXPECT_EXIT(
        {
            pass("", "lane.after_claim", 5);
            ::_exit(7);
        },
        testing::ExitedWithCode(7), "");
}

TEST(FailpointDeathTest, SeveralPointsCountApart) {
    EXPECT_EXIT(
        {
            pass("a=crash@9,b=crash@2", "a", 8);
            failpoint("b");
            failpoint("b");
        },
        testing::KilledBySignal(SIGKILL), "");
}

TEST(FailpointDeathTest, WaitPrintsAndStays) {
    // The alarm ends the wait. A failpoint that did not wait would exit with 7.
    EXPECT_EXIT(
        {
            ::alarm(1);
            pass("lane.after_claim=wait@1", "lane.after_claim", 1);
            ::_exit(7);
        },
        testing::KilledBySignal(SIGALRM), "failpoint lane.after_claim\n");
}

TEST(FailpointDeathTest, AMalformedSettingAborts) {
    for (const char* bad : {"x", "x=crash", "x=crash@", "x=crash@0", "x=crash@-1", "x=crash@1z", "x=explode@1",
                            "=crash@1", "x=crash@1,", "x=crash@1,,y=wait@1", "x@1=crash"}) {
        EXPECT_EXIT(pass(bad, "x", 1), testing::KilledBySignal(SIGABRT), "write NAME=crash@N or NAME=wait@N") << bad;
    }
}

}  // namespace
}  // namespace deliverd
