#include "sink/rabbitmq/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace deliverd::sink {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Window : public testing::Test {
protected:
    Window() {
        for (int i = 0; i < 10; ++i) messages_[static_cast<std::size_t>(i)].message_id = "m" + std::to_string(i + 1);
    }
    void add(int count, int first = 1) {
        for (int i = first; i < first + count; ++i) {
            window_.add({&messages_[static_cast<std::size_t>(i - 1)], nullptr, {}}, at(i));
        }
    }
    static Instant at(int seconds) { return Instant(std::chrono::seconds(seconds)); }
    std::vector<std::string> settle(std::uint64_t tag, bool multiple) {
        std::vector<std::string> out;
        in_step_ = window_.settle(tag, multiple, [&](const Job& job, bool returned) {
            out.push_back(job.message->message_id + (returned ? " returned" : ""));
        });
        return out;
    }
    std::vector<std::string> expire(int seconds) {
        std::vector<std::string> out;
        window_.expire(at(seconds), [&](const Job& job) { out.push_back(job.message->message_id); });
        return out;
    }

    std::array<Message, 10> messages_;
    ConfirmWindow window_;
    bool in_step_ = true;
};

TEST_F(Window, AConfirmIsForItsTagOrForAllUpToIt) {
    add(6);
    EXPECT_THAT(settle(2, false), ElementsAre("m2"));
    EXPECT_THAT(settle(4, true), ElementsAre("m1", "m3", "m4"));
    EXPECT_THAT(settle(6, false), ElementsAre("m6"));
    EXPECT_EQ(window_.live(), 1U);
    EXPECT_THAT(settle(0, true), ElementsAre("m5"));  // 0: all there are
    EXPECT_EQ(window_.tags(), 0U);
    EXPECT_TRUE(in_step_);
}

TEST_F(Window, AConfirmForTag0MeansAllMessages) {
    add(3);
    EXPECT_THAT(settle(0, true), ElementsAre("m1", "m2", "m3"));
}

TEST_F(Window, ASecondConfirmForATagChangesNothing) {
    add(3);
    settle(2, false);
    EXPECT_THAT(settle(2, false), IsEmpty());
    EXPECT_TRUE(in_step_);
    settle(3, true);
    EXPECT_THAT(settle(1, false), IsEmpty());
    EXPECT_TRUE(in_step_);
}

TEST_F(Window, ATagThatWasNeverUsedIsOutOfStep) {
    add(2);
    EXPECT_THAT(settle(3, true), IsEmpty());
    EXPECT_FALSE(in_step_);
    EXPECT_THAT(settle(0, false), IsEmpty());
    EXPECT_FALSE(in_step_);
    EXPECT_EQ(window_.live(), 2U);
}

TEST_F(Window, AReturnIsRememberedUntilTheConfirm) {
    add(4);
    EXPECT_TRUE(window_.mark_returned("m3"));
    EXPECT_TRUE(window_.mark_returned("m2"));  // also out of order
    EXPECT_FALSE(window_.mark_returned("m3"));
    EXPECT_FALSE(window_.mark_returned("unknown"));
    EXPECT_THAT(settle(4, true), ElementsAre("m1", "m2 returned", "m3 returned", "m4"));
}

TEST_F(Window, AReturnIsLookedForBehindWhatIsSettled) {
    add(3);
    settle(2, false);
    EXPECT_TRUE(window_.mark_returned("m3"));
    EXPECT_FALSE(window_.mark_returned("m2"));
    EXPECT_THAT(settle(0, true), ElementsAre("m1", "m3 returned"));
}

TEST_F(Window, OneIdSentTwiceIsReturnedInOrder) {
    messages_[2].message_id = "m1";
    add(3);
    EXPECT_TRUE(window_.mark_returned("m1"));
    EXPECT_THAT(settle(3, true), ElementsAre("m1 returned", "m2", "m1"));
}

TEST_F(Window, ALateConfirmIsNobodyElses) {
    add(3);
    EXPECT_THAT(expire(2), ElementsAre("m1", "m2"));
    EXPECT_EQ(window_.live(), 1U);
    EXPECT_EQ(window_.tags(), 3U);
    add(2, 4);
    EXPECT_THAT(settle(1, false), IsEmpty());  // m1's, too late
    EXPECT_EQ(window_.tags(), 4U) << "m2's is still to come";
    EXPECT_THAT(settle(4, false), ElementsAre("m4"));
    EXPECT_THAT(settle(3, true), ElementsAre("m3"));  // m2's among them
    EXPECT_THAT(settle(5, false), ElementsAre("m5"));
    EXPECT_EQ(window_.tags(), 0U);
}

TEST_F(Window, EachExpiresOnceAndTheNextDeadlineIsTheOldestThatWaits) {
    add(4);
    settle(1, false);
    EXPECT_EQ(window_.next_deadline(), at(2));
    settle(3, false);
    EXPECT_THAT(expire(3), ElementsAre("m2"));
    EXPECT_EQ(window_.next_deadline(), at(4));
    EXPECT_THAT(expire(9), ElementsAre("m4"));
    EXPECT_THAT(expire(9), IsEmpty());
    EXPECT_EQ(window_.next_deadline(), std::nullopt);
}

TEST_F(Window, OneThatIsSettledBehindAnExpiredOneHasNoDeadline) {
    add(3);
    EXPECT_THAT(expire(1), ElementsAre("m1"));
    settle(2, false);
    EXPECT_EQ(window_.next_deadline(), at(3));
}

TEST_F(Window, AllThatIsLeftComesOutInOrderOnce) {
    add(5);
    settle(2, false);
    expire(1);
    std::vector<std::string> out;
    const auto take = [&](const Job& job) { out.push_back(job.message->message_id); };
    window_.take_all(take);
    window_.take_all(take);
    EXPECT_THAT(out, ElementsAre("m3", "m4", "m5"));
    EXPECT_EQ(window_.live(), 0U);
    EXPECT_EQ(window_.tags(), 0U);
}

TEST_F(Window, TheServerGoesOnCountingAfterAllWereTakenOut) {
    add(3);
    window_.take_all([](const Job&) {});
    add(2, 4);
    EXPECT_THAT(settle(2, false), IsEmpty()) << "a late one";
    EXPECT_TRUE(in_step_);
    EXPECT_THAT(expire(4), ElementsAre("m4"));
    EXPECT_THAT(settle(5, false), ElementsAre("m5"));
    EXPECT_TRUE(in_step_);
}

}  // namespace
}  // namespace deliverd::sink
