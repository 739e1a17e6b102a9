#include "lane/dedup_gate.h"

#include <gtest/gtest.h>

namespace deliverd::lane {
namespace {

store::Claimed row(std::int64_t id, std::string key) {
    store::Claimed claimed;
    claimed.message.id = id;
    claimed.message.dedup_key = std::move(key);
    return claimed;
}

class Gate : public ::testing::Test {
protected:
    bool admit(std::int64_t id, const std::string& key) {
        store::Claimed claimed = row(id, key);
        return gate.admit(claimed) == DedupGate::Verdict::lead;
    }
    DedupGate::Followers ended(const std::string& key, bool delivered) {
        return gate.leader_ended(key, delivered, delivered ? std::optional<std::string>("m-1") : std::nullopt);
    }
    DedupGate gate{2};
};

TEST_F(Gate, DifferentOrUncomparedMessagesDoNotWait) {
    EXPECT_TRUE(admit(1, "a"));
    EXPECT_TRUE(admit(2, "b"));
    EXPECT_TRUE(admit(3, ""));
    EXPECT_TRUE(admit(4, ""));
    EXPECT_TRUE(gate.take_all().empty());
}

TEST_F(Gate, MessagesEqualToADeliveredOneAreDuplicates) {
    EXPECT_TRUE(admit(1, "a"));
    EXPECT_FALSE(admit(2, "a"));
    EXPECT_FALSE(admit(3, "a"));
    const DedupGate::Followers followers = ended("a", true);
    ASSERT_EQ(followers.duplicates.size(), 2U);
    EXPECT_EQ(followers.duplicates[0].message.id, 2);
    EXPECT_EQ(followers.duplicates[1].message.id, 3);
    EXPECT_TRUE(followers.next.empty());
    EXPECT_TRUE(gate.take_all().empty());
}

TEST_F(Gate, AnEqualMessageAfterTheDeliveryIsADuplicateToo) {
    admit(1, "a");
    ended("a", true);
    store::Claimed late = row(2, "a");
    EXPECT_EQ(gate.admit(late), DedupGate::Verdict::duplicate);
    EXPECT_EQ(late.duplicate_receipt, "m-1");
}

TEST_F(Gate, RemembersALimitedNumberOfKeys) {
    for (const char* key : {"a", "b", "c"}) {
        admit(1, key);
        ended(key, true);
    }
    EXPECT_TRUE(admit(2, "a"));
    EXPECT_FALSE(admit(3, "b"));
    EXPECT_FALSE(admit(4, "c"));
}

TEST_F(Gate, AfterAFailureTheNextOneLeadsAndTheRestKeepWaiting) {
    EXPECT_TRUE(admit(1, "a"));
    EXPECT_FALSE(admit(2, "a"));
    EXPECT_FALSE(admit(3, "a"));
    const DedupGate::Followers followers = ended("a", false);
    ASSERT_EQ(followers.next.size(), 1U);
    EXPECT_EQ(followers.next[0].message.id, 2);
    EXPECT_FALSE(admit(4, "a"));
    EXPECT_EQ(ended("a", false).next[0].message.id, 3);
    EXPECT_EQ(ended("a", false).next[0].message.id, 4);
    EXPECT_TRUE(ended("a", false).next.empty());
    EXPECT_TRUE(admit(5, "a"));
}

TEST_F(Gate, WaitingRowsCanBeTakenBack) {
    admit(1, "a");
    admit(2, "a");
    EXPECT_EQ(gate.take_all().size(), 1U);
    EXPECT_TRUE(gate.take_all().empty());
    EXPECT_TRUE(ended("a", true).duplicates.empty());
}

}  // namespace
}  // namespace deliverd::lane
