#include "base/random.h"

#include <gtest/gtest.h>

namespace deliverd {
namespace {

// The first outputs of SplitMix64 for seed 0, as its author published them.
TEST(SeededRandom, IsSplitMix64) {
    SeededRandom random(0);
    EXPECT_EQ(random.next(), 0xE220A8397B1DCDAFULL);
    EXPECT_EQ(random.next(), 0x6E789E6AA1B965F4ULL);
    EXPECT_EQ(random.next(), 0x06C45D188009454FULL);
}

TEST(Random, RangesHold) {
    SeededRandom random(1);
    for (int i = 0; i < 10'000; ++i) {
        const double unit = random.unit();
        EXPECT_TRUE(unit >= 0 && unit < 1);
        const double between = random.between(-3, 5);
        EXPECT_TRUE(between >= -3 && between < 5);
        EXPECT_LT(random.below(7), 7U);
    }
    EXPECT_EQ(random.below(0), 0U);
}

}  // namespace
}  // namespace deliverd
