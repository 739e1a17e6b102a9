// Lines that are not entries, in FILE.rejected.
#include "spool/rejects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/hmac.h"
#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class RejectsTest : public SpoolFixture {
protected:
    /// A run that writes FILE.rejected and then cannot replace the file.
    void move_without_replacing() {
        FaultyFiles watched(Fault::before, 0);
        watched.after_sync = [&](int) { std::filesystem::remove(path_ + ".lock"); };
        ASSERT_FALSE(SpoolFile(options(), watched, clock_, random_).cleanup());
    }
    [[nodiscard]] std::vector<std::string> records() const { return lines_of(path_ + ".rejected"); }
};

constexpr std::size_t kLongestText = std::size_t{64} * 1024;

TEST_F(RejectsTest, ARecordHasNumberReasonTimeAndText) {
    put(line("a", "pending", 1, 1) + "\n  \ngar\"bage\n");
    EXPECT_EQ(must(spool_->cleanup()).rejected, 1);
    ASSERT_THAT(records(), SizeIs(1));
    const auto record = boost::json::parse(records()[0]).as_object();
    EXPECT_EQ(record.at("line").as_int64(), 4);
    EXPECT_EQ(record.at("reason").as_string(), "is not a JSON object");
    EXPECT_EQ(record.at("movedAt").as_int64(), clock_.now_ms);
    EXPECT_EQ(record.at("text").as_string(), "gar\"bage");
}

/// Only the second copy finds it.
TEST_F(RejectsTest, ALineThatIsAppendedDuringTheRunHasItsNumber) {
    put(line("old", "resolved", clock_.now_ms - 3 * kDay, 0) + line("a", "pending", 1, 1));
    FaultyFiles watched(Fault::before, 0);
    watched.after_sync = [this](int number) {
        if (number == 1) std::ofstream(path_, std::ios::app) << "garbage\n";
    };
    EXPECT_EQ(must(SpoolFile(options(), watched, clock_, random_).cleanup()).rejected, 1);
    EXPECT_EQ(boost::json::parse(records().at(0)).at("line").as_int64(), 3);
}

TEST_F(RejectsTest, ALongerLineIsWrittenAsBase64) {
    for (const std::size_t bytes : {kLongestText, kLongestText + 1}) {
        std::filesystem::remove(path_ + ".rejected");
        const std::string text(bytes, 'x');
        put(text + "\n");
        EXPECT_EQ(must(spool_->cleanup()).rejected, 1);
        const auto record = boost::json::parse(records().at(0)).as_object();
        EXPECT_EQ(record.contains("text"), bytes == kLongestText);
        if (record.contains("base64")) {
            EXPECT_TRUE(base64_decoded(std::string(record.at("base64").as_string())) == text);
        }
    }
}

TEST_F(RejectsTest, AnotherLineInTheSamePlaceIsMovedToo) {
    const std::string kept = line("a", "pending", 1, 1);
    for (const char* text : {"one\n", "two\n", "Two\n", "longer\n", "two\n"}) {
        put(text + kept);
        move_without_replacing();
    }
    ASSERT_THAT(records(), SizeIs(4)) << "the last one is known";
    put(kept + "two\n");
    move_without_replacing();
    ASSERT_THAT(records(), SizeIs(5));
    EXPECT_THAT(records()[4], HasSubstr(R"("text":"two"})"));
}

TEST_F(RejectsTest, TheSameLineOfAnotherFileIsMovedToo) {
    put("one\n");
    EXPECT_EQ(must(spool_->cleanup()).rejected, 1);
    put("one\n");  // into the file that replaced the first
    EXPECT_EQ(must(spool_->cleanup()).rejected, 1);
    EXPECT_THAT(records(), SizeIs(2));
}

/// The record is ended, so that the next one is whole, and the line is moved again.
TEST_F(RejectsTest, ARecordThatACrashHasCutIsWrittenAgain) {
    const std::string huge(kMaxSpoolLineBytes + 10, 'x');
    const std::string small = "one";
    for (const auto& [text, cut] :
         {std::pair(small, 1U), std::pair(small, 3U), std::pair(small, 60U), std::pair(huge, 3U)}) {
        std::filesystem::remove(path_ + ".rejected");
        put(text + "\n");
        move_without_replacing();
        ASSERT_THAT(records(), SizeIs(1));
        const auto size = std::filesystem::file_size(path_ + ".rejected");
        std::filesystem::resize_file(path_ + ".rejected", size - cut);
        move_without_replacing();
        EXPECT_THAT(records(), SizeIs(cut == 1 ? 1 : 2)) << "without its line end it is whole";
        EXPECT_TRUE(text_of(path_ + ".rejected").ends_with("\"}\n"));
    }
}

/// A power cut must not leave the replaced file and no FILE.rejected.
TEST_F(RejectsTest, TheNameOfANewFileIsDurableBeforeTheSpoolIsReplaced) {
    std::vector<int> syncs;
    for (int run = 0; run < 2; ++run) {
        put("garbage " + std::to_string(run) + "\n");
        FaultyFiles watched(Fault::before, 0);
        watched.after_sync = [](int) {};  // so that they are counted
        watched.before_rename = [&] { syncs.push_back(watched.syncs()); };
        EXPECT_EQ(must(SpoolFile(options(), watched, clock_, random_).cleanup()).rejected, 1);
    }
    ASSERT_THAT(syncs, SizeIs(2));
    EXPECT_GT(syncs[0], syncs[1]) << "the folder as well";
}

}  // namespace
}  // namespace deliverd::spool
