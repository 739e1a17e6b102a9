// Ten thousand schedules by default. To repeat only one that failed, set its seed:
//     DELIVERD_SIM_SEED=4711 build/deliverd_simulation_test
// DELIVERD_SIM_SCHEDULES sets the number of schedules (the sanitizer builds run fewer).
#include "simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace deliverd::simulation {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
}

void expect_promises_kept(const Report& report) {
    for (const std::string& violation : report.violations) {
        ADD_FAILURE() << violation << "\nreplay: DELIVERD_SIM_SEED=" << report.seed
                      << " build/deliverd_simulation_test";
    }
}

Report total(std::uint64_t first_seed, std::uint64_t schedules) {
    Report sum;
    for (std::uint64_t seed = first_seed; seed < first_seed + schedules; ++seed) {
        const Report report = simulate(seed, Faults::from_seed(seed));
        expect_promises_kept(report);
        sum.sends += report.sends;
        sum.repeated_deliveries += report.repeated_deliveries;
        sum.crashes += report.crashes;
        sum.database_faults += report.database_faults;
        sum.conflicts += report.conflicts;
        sum.renewals += report.renewals;
        sum.drains += report.drains;
        sum.rescued += report.rescued;
        sum.pauses += report.pauses;
        sum.late_answers += report.late_answers;
        sum.claimed_again += report.claimed_again;
        if (::testing::Test::HasFailure()) break;
    }
    return sum;
}

TEST(Simulator, KeepsEveryPromiseUnderFaults) {
    if (std::getenv("DELIVERD_SIM_SEED") != nullptr) {
        total(from_environment("DELIVERD_SIM_SEED", 0), 1);
        return;
    }
    const Report sum = total(1, from_environment("DELIVERD_SIM_SCHEDULES", 10'000));
    // The faults really happened.
    EXPECT_GT(sum.crashes, 0U);
    EXPECT_GT(sum.repeated_deliveries, 0U);
    EXPECT_GT(sum.database_faults, 0U);
    EXPECT_GT(sum.conflicts, 0U);
    EXPECT_GT(sum.renewals, 0U);
    EXPECT_GT(sum.drains, 0U);
    EXPECT_GT(sum.rescued, 0U);
    EXPECT_GT(sum.pauses, 0U);
    EXPECT_GT(sum.late_answers, 0U);
    EXPECT_GT(sum.claimed_again, 0U);
    std::printf("%llu sends, %llu repeated, %llu crashes, %llu database faults, %llu conflicts, %llu renewals\n",
                static_cast<unsigned long long>(sum.sends), static_cast<unsigned long long>(sum.repeated_deliveries),
                static_cast<unsigned long long>(sum.crashes), static_cast<unsigned long long>(sum.database_faults),
                static_cast<unsigned long long>(sum.conflicts), static_cast<unsigned long long>(sum.renewals));
}

TEST(Simulator, WithoutCrashesAndLostAnswersNothingIsDeliveredTwice) {
    // Sends fail, are refused, wait for pauses to end, and take up to three leases. Only renewal keeps other workers
    // away.
    Faults faults;
    faults.send_fails = 0.3;
    faults.send_refused = 0.05;
    faults.send_limited = 0.1;
    faults.slow_send = 0.5;
    for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
        const Report report = simulate(seed, faults);
        expect_promises_kept(report);
        ASSERT_EQ(report.repeated_deliveries, 0U) << "seed " << seed;
        ASSERT_EQ(report.conflicts, 0U) << "seed " << seed;
        ASSERT_EQ(report.rescued, 0U) << "seed " << seed;
    }
}

TEST(Simulator, ASeedReplaysExactly) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const Faults faults = Faults::from_seed(seed);
        EXPECT_EQ(simulate(seed, faults).trace, simulate(seed, faults).trace) << "seed " << seed;
    }
    EXPECT_NE(simulate(1, Faults::from_seed(1)).trace, simulate(2, Faults::from_seed(2)).trace);
}

}  // namespace
}  // namespace deliverd::simulation
