// Three thousand schedules by default. To repeat only one that failed, set its seed:
//     DELIVERD_SIM_SEED=4711 build/deliverd_relay_simulation_test
// DELIVERD_SIM_SCHEDULES sets the number of schedules (the sanitizer builds run fewer).
#include "relay_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

namespace deliverd::simulation {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
}

void expect_promises_kept(const RelayReport& report) {
    for (const std::string& violation : report.violations) {
        ADD_FAILURE() << violation << "\nreplay: DELIVERD_SIM_SEED=" << report.seed
                      << " build/deliverd_relay_simulation_test";
    }
}

RelayReport total(std::uint64_t first_seed, std::uint64_t schedules) {
    RelayReport sum;
    for (std::uint64_t seed = first_seed; seed < first_seed + schedules; ++seed) {
        const RelayReport report = simulate_relays(seed, RelayFaults::from_seed(seed));
        expect_promises_kept(report);
        sum.events += report.events;
        sum.sends += report.sends;
        sum.repeated += report.repeated;
        sum.dead += report.dead;
        sum.retried += report.retried;
        sum.crashes += report.crashes;
        sum.pauses += report.pauses;
        sum.fenced += report.fenced;
        sum.released += report.released;
        sum.put_off += report.put_off;
        sum.topic_away += report.topic_away;
        sum.returned += report.returned;
        sum.late_rows += report.late_rows;
        sum.overtaken += report.overtaken;
        if (::testing::Test::HasFailure()) break;
    }
    return sum;
}

TEST(RelaySimulator, KeepsEveryPromiseUnderFaults) {
    if (std::getenv("DELIVERD_SIM_SEED") != nullptr) {
        total(from_environment("DELIVERD_SIM_SEED", 0), 1);
        return;
    }
    const RelayReport sum = total(1, from_environment("DELIVERD_SIM_SCHEDULES", 3'000));
    // The faults really happened.
    EXPECT_GT(sum.repeated, 0U);
    EXPECT_GT(sum.dead, 0U);
    EXPECT_GT(sum.retried, 0U);
    EXPECT_GT(sum.crashes, 0U);
    EXPECT_GT(sum.pauses, 0U);
    EXPECT_GT(sum.fenced, 0U);
    EXPECT_GT(sum.released, 0U);
    EXPECT_GT(sum.put_off, 0U);
    EXPECT_GT(sum.topic_away, 0U);
    EXPECT_GT(sum.returned, 0U);
    EXPECT_GT(sum.late_rows, 0U);
    EXPECT_GT(sum.overtaken, 0U);
    std::printf("%llu events, %llu sends, %llu repeated, %llu dead, %llu retried, %llu crashes, %llu fenced\n",
                static_cast<unsigned long long>(sum.events), static_cast<unsigned long long>(sum.sends),
                static_cast<unsigned long long>(sum.repeated), static_cast<unsigned long long>(sum.dead),
                static_cast<unsigned long long>(sum.retried), static_cast<unsigned long long>(sum.crashes),
                static_cast<unsigned long long>(sum.fenced));
}

TEST(RelaySimulator, WithoutCrashesAndLostAnswersNothingArrivesTwice) {
    // Sends fail and take up to three leases while relays join and leave. Only tend() keeps the others away.
    const std::uint64_t seeds = std::min<std::uint64_t>(300, from_environment("DELIVERD_SIM_SCHEDULES", 300));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const RelayReport report = simulate_relays(seed, RelayFaults::of_sends());
        expect_promises_kept(report);
        ASSERT_EQ(report.repeated, 0U) << "seed " << seed;
        ASSERT_EQ(report.fenced, 0U) << "seed " << seed;
    }
}

void expect_promises_kept_under(const RelayFaults& faults, std::uint64_t most_seeds) {
    const std::uint64_t seeds = std::min(most_seeds, from_environment("DELIVERD_SIM_SCHEDULES", most_seeds));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        expect_promises_kept(simulate_relays(seed, faults));
        ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    }
}

TEST(RelaySimulator, ATopicThatIsAwayHoldsUpNoOther) {
    expect_promises_kept_under(RelayFaults::of_a_topic(), 300);
}

TEST(RelaySimulator, APartOfATopicThatIsAwayHoldsUpNothingElse) {
    for (const bool one_topic : {false, true}) expect_promises_kept_under(RelayFaults::of_a_part(one_topic), 300);
}

TEST(RelaySimulator, AnEventThatIsVisibleLateIsNotOvertakenWhileHandsAreFull) {
    expect_promises_kept_under(RelayFaults::of_full_hands(), 300);
}

TEST(RelaySimulator, NoticesAStoreThatDoesNotFence) {
    bool noticed = false;
    for (std::uint64_t seed = 1; seed <= 300 && !noticed; ++seed) {
        RelaySabotage sabotage;
        sabotage.without_fence = true;
        noticed = !simulate_relays(seed, RelayFaults::from_seed(seed), sabotage).violations.empty();
    }
    EXPECT_TRUE(noticed);
}

TEST(RelaySimulator, NoticesAStoreThatHidesOpenTransactions) {
    std::map<bool, bool> noticed;  // by strict_order
    for (std::uint64_t seed = 1; seed <= 300 && !(noticed[false] && noticed[true]); ++seed) {
        RelaySabotage sabotage;
        sabotage.hides_writers = true;
        const RelayReport report = simulate_relays(seed, RelayFaults::from_seed(seed), sabotage);
        if (!report.violations.empty()) noticed[report.strict_order] = true;
    }
    EXPECT_TRUE(noticed[false]);
    EXPECT_TRUE(noticed[true]);
}

TEST(RelaySimulator, ASeedReplaysExactly) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const RelayFaults faults = RelayFaults::from_seed(seed);
        EXPECT_EQ(simulate_relays(seed, faults).trace, simulate_relays(seed, faults).trace) << "seed " << seed;
    }
    EXPECT_NE(simulate_relays(1, RelayFaults::from_seed(1)).trace, simulate_relays(2, RelayFaults::from_seed(2)).trace);
}

}  // namespace
}  // namespace deliverd::simulation
