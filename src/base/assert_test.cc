#include "base/assert.h"

#include <gtest/gtest.h>

namespace deliverd {
namespace {

TEST(AssertTest, AFalseConditionEndsTheProcessAndSaysWhere) {
    EXPECT_DEATH(ASSERT(1 + 1 == 3), "assert_test.cc:[0-9]+: assertion failed: 1 \\+ 1 == 3");
}

TEST(AssertTest, ATrueConditionIsEvaluatedOnceInEveryBuild) {
    int evaluated = 0;
    ASSERT(++evaluated == 1);
    EXPECT_EQ(evaluated, 1);
}

}  // namespace
}  // namespace deliverd
