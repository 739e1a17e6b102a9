#include "base/try.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace deliverd {
namespace {

Result<int> half(int number) {
    if (number % 2 != 0) return permanent("odd", std::to_string(number) + " is odd");
    return number / 2;
}

Result<void> must_be_even(int number) {
    TRY(half(number));
    return {};
}

Result<int> quarter(int number) {
    TRY_ASSIGN(const int once, half(number));
    TRY_ASSIGN(const int twice, half(once));
    return twice;
}

TEST(TryTest, GoesOnWithTheValue) {
    EXPECT_TRUE(must_be_even(4));
    EXPECT_EQ(quarter(12), 3);
}

TEST(TryTest, ReturnsTheErrorAsItIs) {
    const auto even = must_be_even(3);
    ASSERT_FALSE(even);
    EXPECT_EQ(even.error().code, "odd");
    const auto second_step = quarter(6);
    ASSERT_FALSE(second_step);
    EXPECT_EQ(second_step.error().error_class, ErrorClass::permanent);
    EXPECT_EQ(second_step.error().message, "3 is odd");
}

TEST(TryTest, EvaluatesTheExpressionOnce) {
    int calls = 0;
    const auto counted = [&calls]() -> Result<int> { return ++calls; };
    const auto twice = [&]() -> Result<int> {
        TRY(counted());
        TRY_ASSIGN(const int second, counted());
        return second;
    };
    EXPECT_EQ(twice(), 2);
}

TEST(TryTest, MovesWhatCannotBeCopied) {
    const auto made = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
    const auto passed_on = [&]() -> Result<std::unique_ptr<int>> {
        TRY_ASSIGN(auto number, made());
        return number;
    };
    EXPECT_EQ(**passed_on(), 7);
}

}  // namespace
}  // namespace deliverd
