// Many processes on one file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>

#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

constexpr int kWriters = 8;
constexpr int kEach = 10'000;

/// In memory where that can be had: this is about whose turn it is, and 80,000 times fsync would take minutes.
class SpoolProcesses : public SpoolFixture {
protected:
    SpoolProcesses() {
        path_ = memory_.file("hooks.jsonl");
        spool_ = std::make_unique<SpoolFile>(options(), *files_, clock_, random_);
    }
    TestFolder memory_{std::filesystem::is_directory("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                                 : std::filesystem::temp_directory_path()};
};

/// Resolved entries are taken out by the test itself, which notes each: a cleanup whose 24 hours are over at once.
TEST_F(SpoolProcesses, EightWritersBesideRetryAndCleanupLoseNothing) {
    std::vector<pid_t> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
        const pid_t child = ::fork();
        if (child == 0) {
            bool ok = true;
            SeededRandom random(static_cast<std::uint64_t>(writer) + 100);
            SpoolFile spool(options(), *files_, clock_, random);
            for (int i = 0; ok && i < kEach; ++i) {
                const std::string id = "w" + std::to_string(writer) + "-" + std::to_string(i);
                ok = spool.add({.endpoint = "http://e/", .payload = R"({"n":1})", .job_id = id}).has_value();
            }
            ::_exit(ok ? 0 : 1);
        }
        ASSERT_GT(child, 0);
        writers.push_back(child);
    }
    // Another clock than the writers': what they add is due, and what is resolved is over the next time round.
    HandClock later;
    SpoolFile runner(options(), *files_, later, random_);
    std::set<std::string> sent;
    std::int64_t removed = 0;
    const auto round = [&] {
        later.now_ms += 2 * kDay;
        if (!std::filesystem::exists(path_)) return;
        const SpoolSummary summary = must(runner.retry(
            [&](const SpoolPost& post) {
                EXPECT_TRUE(sent.emplace(post.job_id).second) << post.job_id << " was sent twice";
                return SpoolAnswer{.delivered = true};
            },
            {}));
        EXPECT_EQ(summary.rejected, 0);
        removed += must(runner.cleanup()).removed;
    };
    std::size_t ended = 0;
    while (ended < writers.size()) {
        round();
        int status = 0;
        const pid_t child = ::waitpid(writers[ended], &status, WNOHANG);
        if (child == 0) continue;
        ASSERT_EQ(child, writers[ended]);
        EXPECT_EQ(status, 0);
        ++ended;
    }
    round();
    later.now_ms += 2 * kDay;
    removed += must(runner.cleanup()).removed;
    EXPECT_EQ(sent.size(), static_cast<std::size_t>(kWriters * kEach));
    EXPECT_EQ(removed, kWriters * kEach);
    EXPECT_EQ(text_of(path_), "");
    EXPECT_FALSE(std::filesystem::exists(path_ + ".rejected"));
}

/// Several retry runs at once, each a process: every entry goes out once.
TEST_F(SpoolProcesses, RetryRunsAtOnceSendEachEntryOnce) {
    constexpr int kEntries = 200;
    constexpr int kRuns = 4;
    std::string text;
    for (int i = 0; i < kEntries; ++i) text += line("e" + std::to_string(i), "pending", clock_.now_ms, i);
    put(text);
    // All begin at once: when the last writer of the pipe has gone.
    std::array<int, 2> gate = {};
    ASSERT_EQ(::pipe(gate.data()), 0);
    std::vector<pid_t> runs;
    for (int run = 0; run < kRuns; ++run) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::close(gate[1]);
            char nothing = 0;
            if (::read(gate[0], &nothing, 1) != 0) ::_exit(2);
            std::ofstream sent(folder_.file("sent-" + std::to_string(run)));
            const auto summary = spool_->retry(
                [&](const SpoolPost& post) {
                    sent << post.job_id << "\n";
                    return SpoolAnswer{.delivered = true};
                },
                {});
            sent.close();
            ::_exit(summary ? 0 : 1);
        }
        ASSERT_GT(child, 0);
        runs.push_back(child);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    std::multiset<std::string> sent;
    for (int run = 0; run < kRuns; ++run) {
        int status = 1;
        EXPECT_EQ(::waitpid(runs[static_cast<std::size_t>(run)], &status, 0), runs[static_cast<std::size_t>(run)]);
        EXPECT_EQ(status, 0);
        for (const std::string& id : lines_of(folder_.file("sent-" + std::to_string(run)))) sent.insert(id);
    }
    EXPECT_THAT(sent, testing::SizeIs(kEntries));
    EXPECT_EQ(std::set<std::string>(sent.begin(), sent.end()).size(), static_cast<std::size_t>(kEntries));
}

}  // namespace
}  // namespace deliverd::spool
