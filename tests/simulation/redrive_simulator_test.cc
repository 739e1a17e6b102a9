// A hundred and fifty schedules by default. To repeat only one that failed, set its seed:
//     DELIVERD_SIM_SEED=4711 build/deliverd_redrive_simulation_test
// DELIVERD_SIM_SCHEDULES sets the number of schedules (the sanitizer builds run fewer).
#include "redrive_simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace deliverd::simulation {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
}

class RedriveSimulator : public testing::Test {
protected:
    RedriveSimReport simulated(std::uint64_t seed, RedriveSabotage sabotage = RedriveSabotage::none) {
        return simulate_redrives(store_, seed, redrive_faults(seed), sabotage);
    }
    static void expect_promises_kept(const RedriveSimReport& report) {
        for (const std::string& violation : report.violations) {
            ADD_FAILURE() << violation << "\nreplay: DELIVERD_SIM_SEED=" << report.seed
                          << " build/deliverd_redrive_simulation_test";
        }
    }
    bool is_noticed(RedriveSabotage sabotage) {
        for (std::uint64_t seed = 1; seed <= 300; ++seed) {
            if (!simulated(seed, sabotage).violations.empty()) return true;
        }
        return false;
    }

    RedriveStore store_;
};

TEST_F(RedriveSimulator, KeepsEveryPromiseUnderFaults) {
    if (std::getenv("DELIVERD_SIM_SEED") != nullptr) {
        expect_promises_kept(simulated(from_environment("DELIVERD_SIM_SEED", 0)));
        return;
    }
    RedriveSimReport sum;
    const std::uint64_t schedules = from_environment("DELIVERD_SIM_SCHEDULES", 150);
    for (std::uint64_t seed = 1; seed <= schedules && !HasFailure(); ++seed) {
        const RedriveSimReport report = simulated(seed);
        expect_promises_kept(report);
        sum.arrived += report.arrived;
        sum.repeated += report.repeated;
        sum.deaths += report.deaths;
        sum.outages += report.outages;
        sum.lost_answers += report.lost_answers;
        sum.resumed += report.resumed;
        sum.complete += report.complete;
        sum.stopped += report.stopped;
        sum.singles += report.singles;
    }
    // The faults really happened.
    EXPECT_GT(sum.arrived, 0U);
    EXPECT_GT(sum.repeated, 0U);
    EXPECT_GT(sum.deaths, 0U);
    EXPECT_GT(sum.outages, 0U);
    EXPECT_GT(sum.lost_answers, 0U);
    EXPECT_GT(sum.resumed, 0U);
    EXPECT_GT(sum.complete, 0U);
    EXPECT_GT(sum.stopped, 0U);
    EXPECT_GT(sum.singles, 0U);
    std::printf("%llu letters arrived, %llu again, %llu deaths, %llu outages, %llu redrives resumed, %llu complete\n",
                static_cast<unsigned long long>(sum.arrived), static_cast<unsigned long long>(sum.repeated),
                static_cast<unsigned long long>(sum.deaths), static_cast<unsigned long long>(sum.outages),
                static_cast<unsigned long long>(sum.resumed), static_cast<unsigned long long>(sum.complete));
}

TEST_F(RedriveSimulator, ReplaysExactlyFromItsSeed) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const RedriveSimReport first = simulated(seed);
        const RedriveSimReport again = simulated(seed);
        EXPECT_EQ(first.trace, again.trace) << "seed " << seed;
        EXPECT_EQ(first.arrived, again.arrived);
        EXPECT_EQ(first.deaths, again.deaths);
    }
}

TEST_F(RedriveSimulator, WithoutFaultsNothingArrivesTwice) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const RedriveSimReport report = simulate_redrives(store_, seed, {.single = 0.3, .second_name = 0.3});
        expect_promises_kept(report);
        EXPECT_EQ(report.repeated, 0U) << "seed " << seed;
    }
}

/// A former bug: a redrive without a broker gave back a letter that was retried before. The resumed redrive skipped it.
TEST_F(RedriveSimulator, NoticesAResumedRedriveThatSkipsWhatWasGivenBack) {
    EXPECT_TRUE(is_noticed(RedriveSabotage::not_tried_counts_as_tried));
}

TEST_F(RedriveSimulator, NoticesAStoreThatForgetsWhatIsInDoubt) {
    EXPECT_TRUE(is_noticed(RedriveSabotage::doubt_is_forgotten));
}

}  // namespace
}  // namespace deliverd::simulation
