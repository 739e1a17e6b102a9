// The power goes at the Nth call, N = 1, 2, 3, … and at last behind a run, for appends, retries and cleanups. Whatever
// was answered lasts, and no entry is lost or doubled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "spool/testing/power_cut_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

class SpoolPowerCut : public SpoolFixture {
protected:
    /// `work` answers whether it was told that it is done; `check` gets that, with the power back.
    void at_every_call(const std::string& before, const std::function<bool(SpoolFile&)>& work,
                       const std::function<void(bool done)>& check) {
        for (const Lost lost : {Lost::names_and_contents, Lost::contents}) {
            bool was_off = true;
            for (int nth = 1; was_off; ++nth) {
                SCOPED_TRACE("call " + std::to_string(nth) + (lost == Lost::contents ? ", names kept" : ""));
                ASSERT_LT(nth, kMostCalls);
                const auto folder = std::filesystem::path(path_).parent_path();
                for (const auto& entry : std::filesystem::directory_iterator(folder)) {
                    std::filesystem::remove(entry.path());
                }
                if (!before.empty()) put(before);
                PowerCutFiles files(folder.string(), nth);
                SpoolFile spool(options(), files, clock_, random_);
                const bool done = work(spool);
                was_off = files.is_off();
                EXPECT_TRUE(done || was_off);
                files.lose(lost);
                check(done);
                if (HasFailure()) return;
            }
        }
    }
    /// Of the line that is no entry: it is still there, or was moved.
    void expect_garbage_somewhere() const {
        const auto lines = lines_of(path_);
        const auto moved = lines_of(path_ + ".rejected");
        EXPECT_TRUE(std::ranges::count(lines, "garbage") == 1 || std::ranges::any_of(moved, [](const auto& record) {
                        return record.ends_with(R"("text":"garbage"})");
                    }));
    }
};

TEST_F(SpoolPowerCut, WhatAddAnsweredLasts) {
    for (const std::string& before : {std::string(), line("a", "pending", 1, 1)}) {
        at_every_call(
            before, [](SpoolFile& spool) { return spool.add({.endpoint = "http://e/", .job_id = "new"}).has_value(); },
            [&](bool done) {
                const auto all = counts();
                EXPECT_EQ(all.contains("a"), !before.empty());
                const int there = all.contains("new") ? all.at("new") : 0;
                EXPECT_LE(there, 1);
                EXPECT_GE(there, done ? 1 : 0);
            });
    }
}

TEST_F(SpoolPowerCut, WhatARetryAnsweredLastsAndNothingIsLost) {
    std::map<std::string, int> sent;
    const SpoolSender sender = [&](const SpoolPost& post) {
        ++sent[std::string(post.job_id)];
        return SpoolAnswer{.delivered = true};
    };
    at_every_call(
        three(),
        [&](SpoolFile& spool) {
            sent.clear();
            return spool.retry(sender, {}).has_value();
        },
        [&](bool done) {
            expect_garbage_somewhere();
            must(spool_->retry(sender, {}));
            EXPECT_THAT(counts(), testing::SizeIs(4));
            for (const auto& [id, count] : counts()) EXPECT_EQ(count, 1) << id;
            for (const char* id : {"a", "b", "c"}) {
                EXPECT_EQ(must(spool_->find(id))->state, SpoolState::resolved) << id;
                EXPECT_LE(sent[id], done ? 1 : 2) << id;
            }
            expect_garbage_somewhere();
        });
}

TEST_F(SpoolPowerCut, WhatACleanupAnsweredLastsAndNothingElseIsLost) {
    at_every_call(
        three(), [](SpoolFile& spool) { return spool.cleanup().has_value(); },
        [&](bool done) {
            expect_garbage_somewhere();
            const auto all = counts();
            for (const char* id : {"a", "b", "c"}) EXPECT_EQ(all.contains(id) ? all.at(id) : 0, 1) << id;
            if (done) {
                EXPECT_FALSE(all.contains("old"));
            }
            must(spool_->cleanup());
            EXPECT_THAT(counts(), testing::SizeIs(3));
            expect_garbage_somewhere();
        });
}

}  // namespace
}  // namespace deliverd::spool
