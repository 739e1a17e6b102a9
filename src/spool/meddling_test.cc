// What others do to a file, its locks and its names while a run is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using SpoolMeddling = SpoolFixture;

/// After the first copy, before the lock: where only the second copy finds it.
TEST_F(SpoolMeddling, AnAppendDuringARunIsNotLost) {
    const std::int64_t now = clock_.now_ms;
    put(line("a", "pending", now, now - 2) + line("old", "resolved", now - 3 * kDay, 0));
    FaultyFiles watched(Fault::before, 0);
    std::vector<std::string> added;
    int first = 1;
    watched.after_sync = [&](int number) {
        if (number == first) added.push_back(must(spool_->add({.endpoint = "http://e/", .payload = "1"})).job_id);
    };
    SpoolFile spool(options(), watched, clock_, random_);
    EXPECT_EQ(must(spool.retry(yes, {})).resolved, 1);
    ASSERT_THAT(added, SizeIs(1));
    EXPECT_THAT(ids(), ElementsAre("a", "old", added[0]));
    first = watched.syncs() + 1;
    EXPECT_EQ(must(spool.cleanup()).removed, 1);
    ASSERT_THAT(added, SizeIs(2));
    EXPECT_THAT(ids(), ElementsAre("a", added[0], added[1]));
}

/// As by an append whose fsync fails, while the file is being copied.
TEST_F(SpoolMeddling, AnAppendThatIsTakenBackDuringARunLeavesNoTrace) {
    const std::string kept = line("a", "pending", clock_.now_ms, clock_.now_ms + 1);
    put(line("old", "resolved", clock_.now_ms - 3 * kDay, 0) + kept);
    const std::uintmax_t size = std::filesystem::file_size(path_);
    FaultyFiles watched(Fault::before, 0);
    File lock;
    watched.before_open = [&](const std::string& opened) {
        if (!opened.ends_with(".new")) return;
        lock = must(take_lock(*files_, must(find_place(*files_, path_)), ".lock", 0, "nobody"));
        std::ofstream(path_, std::ios::app) << line("ghost", "pending", clock_.now_ms, 0);
    };
    std::string added;
    watched.after_sync = [&](int number) {
        if (number != 1) return;
        std::filesystem::resize_file(path_, size);
        lock = File();
        added = must(spool_->add({.endpoint = "http://e/", .payload = R"({"longer":"than the other"})"})).job_id;
    };
    EXPECT_EQ(must(SpoolFile(options(), watched, clock_, random_).cleanup()).removed, 1);
    EXPECT_THAT(ids(), ElementsAre("a", added));
    EXPECT_FALSE(exists(".rejected"));
}

TEST_F(SpoolMeddling, AFileThatIsMadeShorterDuringARunIsNotReplaced) {
    put(line("old", "resolved", clock_.now_ms - 3 * kDay, 0) + line("a", "pending", clock_.now_ms, 0));
    FaultyFiles watched(Fault::before, 0);
    watched.after_sync = [&](int /*number*/) { std::filesystem::resize_file(path_, 5); };
    const auto done = SpoolFile(options(), watched, clock_, random_).cleanup();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("was made shorter"));
    EXPECT_EQ(std::filesystem::file_size(path_), 5U);
}

TEST_F(SpoolMeddling, ALockThatIsRemovedWhileItIsWaitedForIsTakenAnew) {
    const Place place = must(find_place(*files_, path_));
    FaultyFiles watched(Fault::before, 0);
    int tries = 0;
    watched.before_lock = [&] {
        if (++tries == 1) std::filesystem::remove(path_ + ".lock");
    };
    const File held = must(take_lock(watched, place, ".lock", 20, "somebody"));
    EXPECT_EQ(tries, 2);
    EXPECT_FALSE(take_lock(*files_, place, ".lock", 0, "the other"));
}

TEST_F(SpoolMeddling, ALockThatIsRemovedDuringARunEndsIt) {
    for (const char* ending : {".lock", ".work.lock"}) {
        put(line("old", "resolved", clock_.now_ms - 3 * kDay, 0));
        FaultyFiles watched(Fault::before, 0);
        watched.after_sync = [&](int number) {
            if (number == 2) std::filesystem::remove(path_ + ending);
        };
        const auto done = SpoolFile(options(), watched, clock_, random_).cleanup();
        ASSERT_FALSE(done);
        EXPECT_THAT(done.error().message, HasSubstr(std::string(ending) + " was removed"));
        EXPECT_THAT(ids(), ElementsAre("old"));
        EXPECT_EQ(must(spool_->cleanup()).removed, 1);
    }
}

/// What came in there would be lost.
TEST_F(SpoolMeddling, NobodyAppendsBetweenTheLastCopyAndTheRename) {
    put(line("old", "resolved", clock_.now_ms - 3 * kDay, 0) + line("a", "pending", clock_.now_ms, 0));
    FaultyFiles watched(Fault::before, 0);
    int renames = 0;
    watched.before_rename = [&] {
        ++renames;
        SpoolOptions hasty = options();
        hasty.lock_wait_seconds = 0;
        const auto added = SpoolFile(hasty, *files_, clock_, random_).add({.endpoint = "http://e/"});
        EXPECT_EQ(added ? "added" : added.error().code, "spool_busy");
    };
    SpoolFile spool(options(), watched, clock_, random_);
    EXPECT_EQ(must(spool.cleanup()).removed, 1);
    EXPECT_EQ(must(spool.retry(yes, {})).resolved, 1);
    EXPECT_EQ(renames, 2);
    EXPECT_TRUE(spool_->add({.endpoint = "http://e/"}));
}

TEST_F(SpoolMeddling, TheSecondRunWaitsForTheFirstAndThenSaysSo) {
    put(line("a", "pending", clock_.now_ms, 0));
    SpoolOptions hasty = options();
    hasty.work_wait_seconds = 0;
    SpoolFile second(hasty, *files_, clock_, random_);
    must(spool_->retry(
        [&](const SpoolPost&) {
            const auto run = second.retry(yes, {});
            EXPECT_EQ(run ? "sent" : run.error().code, "spool_busy");
            EXPECT_FALSE(second.cleanup());
            return SpoolAnswer{.delivered = true};
        },
        {}));
    EXPECT_EQ(must(second.retry(yes, {})).total, 0);
}

TEST_F(SpoolMeddling, ALockThatIsHeldAtTheEndOfARunIsToldApartFromOneAtItsBeginning) {
    put(line("a", "pending", clock_.now_ms, 0));
    SpoolOptions hasty = options();
    hasty.lock_wait_seconds = 0;
    SpoolFile spool(hasty, *files_, clock_, random_);
    File lock;
    const auto run = spool.retry(
        [&](const SpoolPost&) {
            lock = must(take_lock(*files_, must(find_place(*files_, path_)), ".lock", 0, "nobody"));
            return SpoolAnswer{.delivered = true};
        },
        {});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, "spool_stuck");
    lock = File();
    EXPECT_EQ(must(spool.retry(yes, {})).recovered, 1);
}

TEST_F(SpoolMeddling, WhatIsNoFileIsRefusedWithoutWaitingForIt) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    for (const auto& error : {spool_->retry(yes, {}).error(), spool_->cleanup().error(), spool_->due(1).error(),
                              spool_->find("x").error(), spool_->add({.endpoint = "http://e/"}).error()}) {
        EXPECT_EQ(error.code, "bad_argument");
        EXPECT_THAT(error.message, HasSubstr("is not a regular file"));
    }
}

TEST_F(SpoolMeddling, AFileThatVanishesDuringARunStaysGone) {
    put(line("a", "pending", clock_.now_ms, 0));
    const auto run = spool_->retry(
        [&](const SpoolPost&) {
            std::filesystem::remove(path_);
            return SpoolAnswer{.delivered = true};
        },
        {});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, "spool_replaced");
    EXPECT_THAT(run.error().message, HasSubstr("was removed or replaced"));
    EXPECT_FALSE(exists(""));
    EXPECT_FALSE(exists(".new"));
}

/// The file was there when the run began: the code is another one than for a file that never was.
TEST_F(SpoolMeddling, AFolderThatVanishesDuringARunIsSaidToBeReplaced) {
    put(line("old", "resolved", clock_.now_ms - 3 * kDay, 0));
    FaultyFiles watched(Fault::before, 0);
    int locks = 0;
    watched.before_lock = [&] {
        if (++locks == 2) std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
    };
    const auto run = SpoolFile(options(), watched, clock_, random_).cleanup();
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, "spool_replaced");
}

TEST_F(SpoolMeddling, AFileThatIsMadeShorterWhileItIsSentIsReported) {
    const std::string first = line("a", "pending", clock_.now_ms, 0);
    put(first + line("b", "pending", clock_.now_ms, 1));
    const auto run = spool_->retry(
        [&](const SpoolPost&) {
            std::filesystem::resize_file(path_, first.size());
            return SpoolAnswer{.delivered = true};
        },
        {});
    ASSERT_FALSE(run);
    EXPECT_THAT(run.error().message, HasSubstr("became shorter"));
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::resolved) << "what was sent is recorded";
}

TEST_F(SpoolMeddling, AJournalThatLosesItsNotesIsReported) {
    put(line("a", "pending", clock_.now_ms, 0));
    const auto run = spool_->retry(
        [&](const SpoolPost&) {
            std::ofstream(path_ + ".journal") << "something else\n";
            return SpoolAnswer{.delivered = true};
        },
        {});
    ASSERT_FALSE(run);
    EXPECT_THAT(run.error().message, HasSubstr("0 readable notes of 1 attempts"));
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::pending);
}

TEST_F(SpoolMeddling, ALinkStaysALinkAndPermissionsStay) {
    put(line("a", "pending", clock_.now_ms, 0));
    std::filesystem::permissions(path_, std::filesystem::perms(0640));
    const std::string link = folder_.file("link.jsonl");
    std::filesystem::create_symlink(path_, link);
    SpoolFile spool({.path = link}, *files_, clock_, random_);
    EXPECT_EQ(must(spool.retry(yes, {})).resolved, 1);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::resolved);
    EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0640));
}

TEST_F(SpoolMeddling, ALinkToAFileThatIsNotThereYetStaysALink) {
    const std::string link = folder_.file("link.jsonl");
    std::filesystem::create_symlink("hooks.jsonl", link);
    SpoolFile spool({.path = link}, *files_, clock_, random_);
    EXPECT_EQ(spool.cleanup().error().code, "spool_missing");
    must(spool.add({.endpoint = "http://e/", .job_id = "a"}));
    clock_.now_ms += kDay;
    EXPECT_EQ(must(spool.retry(yes, {})).resolved, 1);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::resolved);
    EXPECT_FALSE(std::filesystem::exists(link + ".lock"));
}

TEST_F(SpoolMeddling, AFileWithTwoNamesIsNotReplaced) {
    put(line("a", "pending", clock_.now_ms, 0));
    std::filesystem::create_hard_link(path_, folder_.file("other.jsonl"));
    const auto run = spool_->retry(
        [](const SpoolPost& post) -> SpoolAnswer {
            ADD_FAILURE() << post.job_id << " was sent, though that cannot be recorded";
            return {};
        },
        {});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, "spool_linked");
    std::filesystem::remove(folder_.file("other.jsonl"));
    EXPECT_EQ(must(spool_->retry(yes, {})).resolved, 1);
}

}  // namespace
}  // namespace deliverd::spool
