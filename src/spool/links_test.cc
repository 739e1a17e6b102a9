// What whoever may write to the spool's folder can plant beside the file. A run by another user, root above all, must
// not be led by it to files elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "spool/testing/root.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;
constexpr std::array kEndings = {".new", ".rejected", ".journal", ".lock", ".work.lock"};

class SpoolLinks : public SpoolFixture {
protected:
    SpoolLinks() : victim_(elsewhere_.file("secret")) {
        std::ofstream(victim_) << kSecret;
        std::filesystem::permissions(victim_, std::filesystem::perms(0600));
    }

    /// One entry to send, one to drop and one line to move aside: retry() and cleanup() write every file they have.
    void fill() {
        for (const char* ending : kEndings) std::filesystem::remove(path_ + ending);
        put(line("a", "pending", clock_.now_ms, 0) + "garbage\n" +
            line("old", "resolved", clock_.now_ms - 3 * kDay, 0));
    }
    /// As if another user owned the folder and had made all that is in it; only root can arrange that.
    void give_away() const {
        if (::geteuid() != 0) return;
        const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
        ASSERT_EQ(::chown(folder.c_str(), kNobody, kNobody), 0);
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            ASSERT_EQ(::lchown(entry.path().c_str(), kNobody, kNobody), 0);
        }
    }
    void expect_victim_untouched() const {
        struct stat now = {};
        ASSERT_EQ(::stat(victim_.c_str(), &now), 0);
        EXPECT_EQ(now.st_uid, ::geteuid());
        EXPECT_EQ(now.st_mode & 07777U, 0600U);
        EXPECT_EQ(text_of(victim_), kSecret);
        for (const char* ending : kEndings) {
            EXPECT_FALSE(std::filesystem::exists(victim_ + ending)) << ending;
        }
    }
    template <typename Answer>
    void expect_refused(const Answer& answer, const std::string& what) const {
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, "spool_unsafe");
        EXPECT_EQ(answer.error().error_class, ErrorClass::permanent);
        EXPECT_THAT(answer.error().message, HasSubstr(what));
    }

    static constexpr const char* kSecret = "root only\n";
    TestFolder elsewhere_;
    const std::string victim_;
};

TEST_F(SpoolLinks, ALinkBesideTheFileIsRefusedAndItsTargetUntouched) {
    for (const char* ending : kEndings) {
        SCOPED_TRACE(ending);
        fill();
        const std::string before = text_of(path_);
        std::filesystem::create_symlink(victim_, path_ + ending);
        give_away();
        const std::string what = path_ + ending + " is a symbolic link";
        expect_refused(spool_->cleanup(), what);
        expect_refused(spool_->retry(yes, {}), what);
        if (std::string_view(ending) == ".lock") expect_refused(spool_->add({.endpoint = "http://e/"}), what);
        expect_victim_untouched();
        EXPECT_EQ(text_of(path_), before);
        EXPECT_TRUE(std::filesystem::is_symlink(path_ + ending)) << "it is evidence, and not ours";
        std::filesystem::remove(path_ + ending);
        EXPECT_TRUE(spool_->cleanup());
    }
}

/// O_CREAT through a link would make the file that it names.
TEST_F(SpoolLinks, ALinkToNowhereMakesNothingThere) {
    const std::string target = elsewhere_.file("made");
    for (const char* ending : kEndings) {
        SCOPED_TRACE(ending);
        fill();
        std::filesystem::create_symlink(target, path_ + ending);
        give_away();
        expect_refused(spool_->retry(yes, {}), " is a symbolic link");
        EXPECT_FALSE(std::filesystem::exists(target));
    }
}

/// What is appended to one name is appended to all.
TEST_F(SpoolLinks, AHardLinkBesideTheFileIsRefusedAndTheOtherNameUntouched) {
    const std::string other = folder_.file("other");
    for (const char* ending : {".rejected", ".journal"}) {
        SCOPED_TRACE(ending);
        fill();
        std::ofstream(other) << kSecret;
        std::filesystem::create_hard_link(other, path_ + ending);
        expect_refused(spool_->retry(yes, {}), path_ + ending + " has another name");
        EXPECT_EQ(text_of(other), kSecret);
        std::filesystem::remove(other);
    }
}

/// A journal says what becomes of entries: one by a third user could send them anywhere.
TEST_F(SpoolLinks, AFileOfAThirdUserIsRefused) {
    ONLY_AS_ROOT();
    constexpr uid_t kThird = 65533;
    for (const char* ending : {".rejected", ".journal"}) {
        SCOPED_TRACE(ending);
        fill();
        give_away();
        std::ofstream(path_ + ending) << "";
        ASSERT_EQ(::chown((path_ + ending).c_str(), kThird, kThird), 0);
        expect_refused(spool_->retry(yes, {}), path_ + ending + " belongs to user 65533");
        std::filesystem::remove(path_ + ending);
        std::ofstream(path_ + ending) << "";
        give_away();
        EXPECT_TRUE(spool_->cleanup()) << "the spool's owner may";
    }
}

TEST_F(SpoolLinks, TheFileItselfMayBeALinkOnlyOfThisUserOrRoot) {
    ONLY_AS_ROOT();
    std::filesystem::create_symlink(victim_, path_);
    give_away();
    const std::string what = path_ + " is a symbolic link that belongs to user 65534";
    expect_refused(spool_->cleanup(), what);
    expect_refused(spool_->retry(yes, {}), what);
    expect_refused(spool_->due(1), what);
    expect_refused(spool_->find("a"), what);
    expect_refused(spool_->add({.endpoint = "http://e/"}), what);
    expect_victim_untouched();
}

/// Whoever may write to one of the folders above could lead a run to a file of that name anywhere.
TEST_F(SpoolLinks, AFolderMayBeALinkOnlyOfThisUserOrRoot) {
    ONLY_AS_ROOT();
    fill();
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    const std::string link = elsewhere_.file("folder");
    for (const auto& target : {folder, ".." / folder.filename()}) {
        SCOPED_TRACE(target);
        std::filesystem::create_symlink(target, link);
        SpoolFile spool({.path = link + "/hooks.jsonl"}, *files_, clock_, random_);
        EXPECT_TRUE(spool.due(1)) << "this user has made it";
        const std::string before = text_of(path_);
        ASSERT_EQ(::lchown(link.c_str(), kNobody, kNobody), 0);
        const std::string what = link + " is a symbolic link that belongs to user 65534";
        expect_refused(spool.cleanup(), what);
        expect_refused(spool.add({.endpoint = "http://e/"}), what);
        EXPECT_EQ(text_of(path_), before);
        std::filesystem::remove(link);
    }
}

/// One that is swapped for a link after it was looked at.
TEST_F(SpoolLinks, AFolderIsNotOpenedThroughALink) {
    const std::string link = elsewhere_.file("folder");
    std::filesystem::create_symlink(std::filesystem::path(path_).parent_path(), link);
    EXPECT_EQ(files_->open_folder(link), -ENOTDIR);
    std::filesystem::create_directory(path_);
    EXPECT_EQ(files_->open_folder(link + "/hooks.jsonl"), -ENOTDIR);
    EXPECT_TRUE(File(files_->open_folder(path_)));
}

TEST_F(SpoolLinks, WhatRootRewritesStaysItsOwners) {
    ONLY_AS_ROOT();
    fill();
    give_away();
    EXPECT_EQ(must(spool_->cleanup()).removed, 1);
    struct stat now = {};
    ASSERT_EQ(::stat(path_.c_str(), &now), 0);
    EXPECT_EQ(now.st_uid, kNobody);
}

/// A run that died leaves FILE.new.
TEST_F(SpoolLinks, WhatAnEarlierRunLeftIsReplaced) {
    fill();
    std::ofstream(path_ + ".new") << "half a li";
    EXPECT_EQ(must(spool_->cleanup()).removed, 1);
    EXPECT_EQ(ids(), std::vector<std::string>{"a"});
    EXPECT_FALSE(exists(".new"));
}

}  // namespace
}  // namespace deliverd::spool
