#include "lane/upkeep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace deliverd::lane {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;

class HandClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override { return now_; }
    [[nodiscard]] WallTime wall_now() const override { return {}; }
    void advance(Duration by) { now_ += by; }

private:
    Instant now_{};
};

/// Keeps the promises of store/upkeep.h by a clock of the test's.
class FakeStore final : public store::Upkeep {
public:
    explicit FakeStore(const HandClock& clock) : clock_(clock) {}

    Result<bool> begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) override {
        if (broken) return retryable("db_unreachable", "away");
        const auto done = done_at.find(std::string(chore));
        const bool due = done == done_at.end() || clock_.now() - done->second >= interval;
        const bool free = !holder || *holder == owner || expires <= clock_.now();
        if (!due || !free) return false;
        holder = owner;
        expires = clock_.now() + lease;
        return true;
    }
    Result<bool> keep(std::string_view owner, Duration lease) override {
        ++kept;
        if (holder != owner) return false;
        expires = clock_.now() + lease;
        return true;
    }
    Result<void> end(std::string_view chore, std::string_view owner, bool finished) override {
        if (holder != owner) return {};
        holder.reset();
        if (finished) done_at[std::string(chore)] = clock_.now();
        return {};
    }
    Result<std::int64_t> purge_ledger(std::int32_t) override { return 0; }

    bool broken = false;
    int kept = 0;
    std::optional<std::string> holder;
    Instant expires{};
    std::map<std::string, Instant> done_at;

private:
    const HandClock& clock_;
};

class UpkeepTest : public testing::Test {
protected:
    /// Deletes ten rows at a time out of `rows_`.
    Chore purge() {
        return {"purge", hours(1), 10, [this](std::int32_t piece) -> Result<std::int64_t> {
                    if (fails_) return retryable("db_error", "no");
                    clock_.advance(piece_takes_);
                    const std::int64_t taken = std::min<std::int64_t>(rows_, piece);
                    rows_ -= taken;
                    pieces_.push_back(taken);
                    if (during_piece_) during_piece_();
                    return taken;
                }};
    }
    HandClock clock_;
    FakeStore store_{clock_};
    NullLog log_;
    std::int64_t rows_ = 25;
    Duration piece_takes_{};
    bool fails_ = false;
    std::function<void()> during_piece_;
    std::vector<std::int64_t> pieces_;
    Upkeep upkeep_{{purge()}, store_, "me", clock_, log_};
};

TEST_F(UpkeepTest, WorksInPiecesUntilNothingIsLeftAndThenNotBeforeTheInterval) {
    EXPECT_EQ(upkeep_.run_due(), 25);
    EXPECT_THAT(pieces_, ElementsAre(10, 10, 5));
    EXPECT_FALSE(store_.holder) << "the lease was given back";
    rows_ = 3;
    EXPECT_EQ(upkeep_.run_due(), 0);
    clock_.advance(hours(1));
    EXPECT_EQ(upkeep_.run_due(), 3);
}

TEST_F(UpkeepTest, LeavesTheChoresToTheProcessThatHasTheLease) {
    store_.holder = "other";
    store_.expires = clock_.now() + seconds(60);
    EXPECT_EQ(upkeep_.run_due(), 0);
    clock_.advance(seconds(61));
    EXPECT_EQ(upkeep_.run_due(), 25) << "the other one's time is over";
}

TEST_F(UpkeepTest, KeepsTheLeaseWhileItWorks) {
    piece_takes_ = seconds(30);
    EXPECT_EQ(upkeep_.run_due(), 25);
    EXPECT_EQ(store_.kept, 2) << "before the second and the third piece";
}

TEST_F(UpkeepTest, EndsWhenTheLeaseIsLost) {
    piece_takes_ = seconds(30);
    during_piece_ = [this] { store_.holder = "other"; };
    EXPECT_EQ(upkeep_.run_due(), 10);
    EXPECT_EQ(store_.holder, "other");
    EXPECT_TRUE(store_.done_at.empty());
}

TEST_F(UpkeepTest, AFailureLeavesTheChoreDue) {
    fails_ = true;
    EXPECT_EQ(upkeep_.run_due(), 0);
    EXPECT_FALSE(store_.holder);
    fails_ = false;
    EXPECT_EQ(upkeep_.run_due(), 25);
    store_.broken = true;
    clock_.advance(hours(2));
    EXPECT_EQ(upkeep_.run_due(), 0);
}

TEST_F(UpkeepTest, AStopEndsAfterThePieceUnderWay) {
    during_piece_ = [this] { upkeep_.stop(); };
    EXPECT_EQ(upkeep_.run_due(), 10);
    EXPECT_FALSE(store_.holder);
    EXPECT_TRUE(store_.done_at.empty()) << "unfinished: the next process continues at once";
}

TEST_F(UpkeepTest, TheThreadLooksAtOnceAndStops) {
    std::mutex mutex;
    std::condition_variable ran;
    bool done = false;
    during_piece_ = [&] {
        const std::lock_guard lock(mutex);
        done = rows_ == 0;
        ran.notify_all();
    };
    upkeep_.start();
    std::unique_lock lock(mutex);
    EXPECT_TRUE(ran.wait_for(lock, seconds(20), [&] { return done; }));
    lock.unlock();
    upkeep_.stop();
}

}  // namespace
}  // namespace deliverd::lane
