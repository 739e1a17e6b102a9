#include "wal/slot_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::wal {
namespace {

TEST(SlotNameTest, IsWhatTheServerAccepts) {
    for (const char* good : {"a", "deliverd_events", "0_9"}) EXPECT_TRUE(check_slot_name(good)) << good;
    EXPECT_TRUE(check_slot_name(std::string(63, 'a')));
    for (const char* bad : {"", "A", "a-b", "a'b", "a\"b", "a b", "ä"}) {
        const auto checked = check_slot_name(bad);
        ASSERT_FALSE(checked) << bad;
        EXPECT_EQ(checked.error().code, codes::kBadArgument);
        EXPECT_THAT(checked.error().message, testing::HasSubstr("1 to 63 of a-z, 0-9 and _"));
    }
    EXPECT_FALSE(check_slot_name(std::string(64, 'a')));
}

TEST(SlotNameTest, ALiteralHoldsItsQuotes) {
    EXPECT_EQ(literal("a'b''c"), "'a''b''''c'");
    EXPECT_EQ(literal(""), "''");
}

}  // namespace
}  // namespace deliverd::wal
