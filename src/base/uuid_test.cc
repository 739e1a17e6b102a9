#include "base/uuid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace deliverd {
namespace {

class AllBits final : public Random {
public:
    explicit AllBits(std::uint64_t bits) : bits_(bits) {}
    std::uint64_t next() override { return bits_; }

private:
    std::uint64_t bits_;
};

WallTime at_millis(std::int64_t millis) {
    return WallTime(std::chrono::milliseconds(millis));
}

// RFC 9562, A.6: 017F22E2-79B0-7CC3-98C4-DC0C0C07398F was made at 1645557742000 ms.
TEST(UuidV7, LayoutIsThatOfTheRfc) {
    AllBits zeros(0);
    EXPECT_EQ(make_uuid_v7(at_millis(1645557742000), zeros), "017f22e2-79b0-7000-8000-000000000000");
    AllBits ones(~std::uint64_t{0});
    EXPECT_EQ(make_uuid_v7(at_millis(1645557742000), ones), "017f22e2-79b0-7fff-bfff-ffffffffffff");
    EXPECT_EQ(make_uuid_v7(at_millis(0), zeros), "00000000-0000-7000-8000-000000000000");
}

TEST(UuidV7, BeforeTheEpochIsTheEpoch) {
    AllBits zeros(0);
    EXPECT_EQ(make_uuid_v7(at_millis(-5), zeros), "00000000-0000-7000-8000-000000000000");
}

TEST(CanonicalUuid, LowerCaseOrNothing) {
    EXPECT_EQ(canonical_uuid("0B5FF1C2-12ab-4CDE-8f00-0123456789AB"), "0b5ff1c2-12ab-4cde-8f00-0123456789ab");
    for (const char* bad : {"", "0b5ff1c2-12ab-4cde-8f00-0123456789a", "0b5ff1c2-12ab-4cde-8f00-0123456789abc",
                            "0b5ff1c2012ab-4cde-8f00-0123456789ab", "0b5ff1c2-12ab-4cde-8f00-0123456789ag",
                            "{b5ff1c2-12ab-4cde-8f00-0123456789a}", "0b5ff1c2-12ab-4cde-8f0-00123456789ab"}) {
        EXPECT_EQ(canonical_uuid(bad), "") << bad;
    }
}

TEST(UuidOfName, FollowsFromTheName) {
    // sha256("abc") = ba7816bf 8f01cfea 414140de 5dae2223 …
    EXPECT_EQ(uuid_of_name("abc"), "ba7816bf-8f01-8fea-a141-40de5dae2223");
    EXPECT_NE(uuid_of_name("abd"), uuid_of_name("abc"));
}

RC_GTEST_PROP(UuidV7Property, SortsByMillisecond, (std::uint64_t seed)) {
    SeededRandom random(seed);
    const auto earlier = *rc::gen::inRange<std::int64_t>(0, 4'000'000'000'000);
    const auto later = *rc::gen::inRange<std::int64_t>(earlier + 1, 4'000'000'000'002);
    RC_ASSERT(make_uuid_v7(at_millis(earlier), random) < make_uuid_v7(at_millis(later), random));
}

TEST(UuidV7, OneMillisecondManyIds) {
    SeededRandom random(7);
    std::set<std::string> ids;
    for (int i = 0; i < 10'000; ++i) {
        const std::string id = make_uuid_v7(at_millis(1645557742000), random);
        EXPECT_THAT(id, testing::MatchesRegex("017f22e2-79b0-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
        ids.insert(id);
    }
    EXPECT_EQ(ids.size(), 10'000U);
}

}  // namespace
}  // namespace deliverd
