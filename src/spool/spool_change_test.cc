// Cleanup, and changes by hand: what changes, what does not, and what is reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SpoolChangeTest : public SpoolFixture {
protected:
    /// A run that sent and died: the next one records it, and moves the line that is not an entry.
    void leave_unrecorded() {
        put("nonsense\n" + line("a", "pending", clock_.now_ms, 0));
        FaultyFiles watched(Fault::before, 0);
        watched.before_open = [&](const std::string& opened) {
            if (opened.ends_with(".new")) std::filesystem::create_directory(path_ + ".new");
        };
        ASSERT_FALSE(SpoolFile(options(), watched, clock_, random_).retry(yes, {}));
        std::filesystem::remove(path_ + ".new");
    }
    /// Which file it is: a replacement is another one.
    [[nodiscard]] ino_t inode() const {
        struct stat status = {};
        EXPECT_EQ(::stat(path_.c_str(), &status), 0);
        return status.st_ino;
    }
    std::string over(const std::string& id) { return line(id, "resolved", clock_.now_ms - 3 * kDay, 0); }
    std::string kept(const std::string& id) { return line(id, "resolved", clock_.now_ms, 0); }
};

TEST_F(SpoolChangeTest, ACleanupCountsWhatItKeepsAndDrops) {
    for (const std::string& text : {over("o") + kept("a") + kept("b"), kept("a") + kept("b") + over("o")}) {
        put(text);
        const SpoolCleanup done = must(spool_->cleanup());
        EXPECT_EQ(done.kept, 2);
        EXPECT_EQ(done.removed, 1);
        EXPECT_EQ(done.rejected, 0);
        EXPECT_THAT(ids(), ElementsAre("a", "b"));
        const ino_t before = inode();
        const SpoolCleanup again = must(spool_->cleanup());
        EXPECT_EQ(again.kept, 2);
        EXPECT_EQ(again.removed, 0);
        EXPECT_EQ(inode(), before) << "the file is not replaced for nothing";
    }
}

TEST_F(SpoolChangeTest, ACleanupMovesLinesThatAreNotEntries) {
    put(kept("a") + "nonsense\n");
    const SpoolCleanup done = must(spool_->cleanup());
    EXPECT_EQ(done.kept, 1);
    EXPECT_EQ(done.removed, 0);
    EXPECT_EQ(done.rejected, 1);
}

TEST_F(SpoolChangeTest, WhatIsMovedForARunThatDiedIsReported) {
    const std::vector<std::string> nobody = {"nobody"};
    const std::vector<std::string> a = {"a"};
    leave_unrecorded();
    EXPECT_EQ(must(spool_->cleanup()).rejected, 1);
    leave_unrecorded();
    const SpoolChange none = must(spool_->resolve(nobody));
    EXPECT_EQ(none.rejected, 1);
    EXPECT_THAT(none.job_ids, IsEmpty());
    leave_unrecorded();
    EXPECT_THAT(must(spool_->resolve(a)).job_ids, IsEmpty()) << "it was delivered";
    // Both: moved for the run that died, and by this one.
    leave_unrecorded();
    FaultyFiles watched(Fault::before, 0);
    watched.before_rename = [this, first = true]() mutable {
        if (std::exchange(first, false)) std::ofstream(path_ + ".new", std::ios::app) << "more nonsense\n" << over("o");
    };
    const SpoolCleanup both = must(SpoolFile(options(), watched, clock_, random_).cleanup());
    EXPECT_EQ(both.rejected, 2);
    EXPECT_EQ(both.removed, 1);
}

TEST_F(SpoolChangeTest, IdsMayComeInAnyOrder) {
    const auto put_all = [this] {
        std::string text;
        for (const char* id : {"a", "b", "c", "d"}) text += line(id, "exhausted", clock_.now_ms, clock_.now_ms, 5);
        put(text);
    };
    const std::vector<std::string> wanted = {"d", "b", "a"};
    put_all();
    EXPECT_THAT(must(spool_->resolve(wanted)).job_ids, ElementsAre("a", "b", "d"));
    EXPECT_EQ(must(spool_->find("d"))->state, SpoolState::resolved);
    EXPECT_EQ(must(spool_->find("d"))->resolved_at_ms, clock_.now_ms);
    EXPECT_EQ(must(spool_->find("c"))->state, SpoolState::exhausted);
    put_all();
    EXPECT_THAT(must(spool_->revive(wanted)).job_ids, ElementsAre("a", "b", "d"));
    EXPECT_EQ(must(spool_->find("a"))->next_retry_ms, clock_.now_ms);
}

TEST_F(SpoolChangeTest, WhereNothingIsConcernedTheFileStays) {
    put("nonsense\n" + kept("a") + line("b", "pending", 1, 1));
    const std::string before = text_of(path_);
    const std::vector<std::string> ids = {"a"};
    const SpoolChange change = must(spool_->resolve(ids));
    EXPECT_THAT(change.job_ids, IsEmpty());
    EXPECT_EQ(change.rejected, 0);
    EXPECT_EQ(text_of(path_), before);
    EXPECT_THAT(must(spool_->revive(ids)).job_ids, IsEmpty());
}

TEST_F(SpoolChangeTest, ALaterEntryWithTheSameIdChangesToo) {
    put(line("b", "pending", 1, 1) + line("a", "pending", 1, 1) + kept("a") + line("a", "pending", 1, 2));
    const std::vector<std::string> ids = {"a"};
    EXPECT_THAT(must(spool_->resolve(ids)).job_ids, ElementsAre("a", "a"));
}

}  // namespace
}  // namespace deliverd::spool
