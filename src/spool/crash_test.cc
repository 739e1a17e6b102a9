// The Nth call fails or is the process's last, N = 1, 2, 3, … until a run gets by without reaching it, for appends, for
// retries and for cleanups. Whatever happens, no entry is lost and none is doubled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

class SpoolCrash : public SpoolFixture {
protected:
    /// Starts from the same file each time.
    void reset(const std::string& text) {
        for (const char* ending : {"", ".lock", ".work.lock", ".journal", ".new", ".rejected", ".sent"}) {
            std::filesystem::remove(path_ + ending);
        }
        if (!text.empty()) put(text);
    }
    /// Runs `work` in a process of its own; whether it died at the fault.
    template <typename Work>
    bool dies(Fault fault, int nth, Work work) {
        const pid_t child = ::fork();
        if (child == 0) {
            FaultyFiles faulty(fault, nth);
            SpoolFile spool(options(), faulty, clock_, random_);
            work(spool);
            ::_exit(0);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        return WIFSIGNALED(status);
    }
    /// One line an id that was sent, in a file that survives the process.
    void note_sent(std::string_view id) { std::ofstream(path_ + ".sent", std::ios::app) << id << "\n"; }

    /// Whole records in FILE.rejected with that line.
    std::ptrdiff_t times_moved(const std::string& text) const {
        const auto records = lines_of(path_ + ".rejected");
        return std::ranges::count_if(
            records, [&](const std::string& record) { return record.ends_with(R"("text":")" + text + "\"}"); });
    }
};

const NewSpoolEntry kEntry{.endpoint = "http://e/", .payload = "{}", .job_id = "new"};

TEST_F(SpoolCrash, AnAppendThatFailsSaysWhetherItIsThere) {
    for (const std::string& before :
         {std::string(), line("a", "pending", 1, 1), line("a", "pending", 1, 1) + "{torn"}) {
        for (const Fault fault : {Fault::before, Fault::full}) {
            bool reached = true;
            for (int nth = 1; reached; ++nth) {
                SCOPED_TRACE("call " + std::to_string(nth));
                ASSERT_LT(nth, kMostCalls);
                reset(before);
                FaultyFiles faulty(fault, nth);
                SpoolFile spool(options(), faulty, clock_, random_);
                const auto added = spool.add(kEntry);
                reached = faulty.reached();
                const auto all = counts();
                EXPECT_EQ(all.contains("a") ? all.at("a") : 0, before.empty() ? 0 : 1);
                const int there = all.contains("new") ? all.at("new") : 0;
                if (added) {
                    EXPECT_EQ(there, 1);
                }
                if (!added && added.error().error_class != ErrorClass::ambiguous) {
                    EXPECT_EQ(there, 0) << added.error().message;
                    EXPECT_TRUE(spool.add(kEntry)) << "the fault is over";
                    EXPECT_EQ(counts().at("new"), 1);
                }
                EXPECT_EQ(!added, reached);
                if (HasFailure()) return;
            }
        }
    }
}

TEST_F(SpoolCrash, AnAppendKilledAtEveryCallIsThereWholeOrNotAtAll) {
    for (const Fault fault : {Fault::die_before, Fault::die_half, Fault::die_after}) {
        bool died = true;
        for (int nth = 1; died; ++nth) {
            SCOPED_TRACE("call " + std::to_string(nth));
            ASSERT_LT(nth, kMostCalls);
            reset(line("a", "pending", 1, 1));
            died = dies(fault, nth, [](SpoolFile& spool) { (void)spool.add(kEntry); });
            EXPECT_EQ(counts().at("a"), 1);
            const int there = counts().contains("new") ? counts().at("new") : 0;
            EXPECT_LE(there, 1);
            if (!died) {
                EXPECT_EQ(there, 1);
            }
            ASSERT_TRUE(spool_->add({.endpoint = "http://e/", .job_id = "next"}));
            EXPECT_EQ(counts().at("a"), 1);
            EXPECT_EQ(counts().at("next"), 1);
            if (HasFailure()) return;
        }
    }
}

TEST_F(SpoolCrash, ARetryThatFailsAtEveryCallLosesAndDoublesNothing) {
    for (const Fault fault : {Fault::before, Fault::full}) {
        bool reached = true;
        for (int nth = 1; reached; ++nth) {
            SCOPED_TRACE("call " + std::to_string(nth));
            ASSERT_LT(nth, kMostCalls);
            reset(three());
            std::map<std::string, int> sent;
            const SpoolSender sender = [&](const SpoolPost& post) {
                ++sent[std::string(post.job_id)];
                return SpoolAnswer{.delivered = true};
            };
            FaultyFiles faulty(fault, nth);
            SpoolFile spool(options(), faulty, clock_, random_);
            const auto run = spool.retry(sender, {});
            reached = faulty.reached();
            EXPECT_THAT(counts(), testing::SizeIs(4));
            must(spool_->retry(sender, {}));
            for (const char* id : {"a", "b", "c"}) {
                EXPECT_EQ(must(spool_->find(id))->state, SpoolState::resolved) << id;
                // Twice only where its answer could not be noted down.
                EXPECT_GE(sent[id], 1);
                EXPECT_LE(sent[id], run ? 1 : 2);
            }
            EXPECT_LE(sent["a"] + sent["b"] + sent["c"], 4);
            for (const auto& [id, count] : counts()) EXPECT_EQ(count, 1) << id;
            EXPECT_THAT(lines_of(path_ + ".rejected"), testing::SizeIs(1));
            if (HasFailure()) return;
        }
    }
}

TEST_F(SpoolCrash, ARetryKilledAtEveryCallLosesAndDoublesNothing) {
    for (const Fault fault : {Fault::die_before, Fault::die_half, Fault::die_after}) {
        bool died = true;
        for (int nth = 1; died; ++nth) {
            SCOPED_TRACE("call " + std::to_string(nth));
            ASSERT_LT(nth, kMostCalls);
            reset(three());
            const SpoolSender sender = [this](const SpoolPost& post) {
                note_sent(post.job_id);
                return SpoolAnswer{.delivered = true};
            };
            died = dies(fault, nth, [&](SpoolFile& spool) { (void)spool.retry(sender, {}); });
            EXPECT_THAT(counts(), testing::SizeIs(4));
            must(spool_->retry(sender, {}));
            EXPECT_THAT(counts(), testing::SizeIs(4));
            for (const auto& [id, count] : counts()) EXPECT_EQ(count, 1) << id;
            for (const char* id : {"a", "b", "c"}) {
                EXPECT_EQ(must(spool_->find(id))->state, SpoolState::resolved) << id;
            }
            // Only the one that was being sent, or whose answer was being noted, can have gone out twice.
            EXPECT_LE(lines_of(path_ + ".sent").size(), died ? 4U : 3U);
            EXPECT_EQ(times_moved("garbage"), 1);
            if (HasFailure()) return;
        }
    }
}

TEST_F(SpoolCrash, ACleanupKilledOrFailingAtEveryCallKeepsWhatItMust) {
    for (const Fault fault : {Fault::before, Fault::full, Fault::die_before, Fault::die_half, Fault::die_after}) {
        const bool kills = fault != Fault::before && fault != Fault::full;
        bool reached = true;
        for (int nth = 1; reached; ++nth) {
            SCOPED_TRACE("call " + std::to_string(nth));
            ASSERT_LT(nth, kMostCalls);
            reset(three());
            if (kills) {
                reached = dies(fault, nth, [](SpoolFile& spool) { (void)spool.cleanup(); });
            } else {
                FaultyFiles faulty(fault, nth);
                SpoolFile spool(options(), faulty, clock_, random_);
                const auto done = spool.cleanup();
                reached = faulty.reached();
                if (fault == Fault::before) {
                    EXPECT_EQ(!done, reached);  // a full disk may take the rest of a write a moment later
                }
                // Before the rename the file is as it was.
                if (!done && done.error().error_class != ErrorClass::ambiguous) {
                    EXPECT_EQ(text_of(path_), three());
                }
            }
            must(spool_->cleanup());
            EXPECT_THAT(counts(), testing::SizeIs(3));
            for (const char* id : {"a", "b", "c"}) EXPECT_EQ(counts()[id], 1);
            EXPECT_EQ(times_moved("garbage"), 1);
            if (HasFailure()) return;
        }
    }
}

}  // namespace
}  // namespace deliverd::spool
