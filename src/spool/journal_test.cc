// The journal of a run: what is noted is found again; what is torn, garbled or about another file is not.
#include "spool/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

class JournalTest : public SpoolFixture {
protected:
    JournalTest() {
        put("the spool\n");
        place_ = must(find_place(*files_, path_));
        file_ = File(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    }
    JournalWriter begin() { return must(JournalWriter::begin(*files_, file_.get(), place_)); }
    Journal read() { return must(Journal::read(*files_, file_.get(), place_)); }
    /// A journal of this spool with these lines.
    void put_notes(const std::string& notes) {
        static_cast<void>(begin());
        std::ofstream(path_ + ".journal", std::ios::app | std::ios::binary) << notes;
    }

    Place place_;
    File file_;
};

TEST_F(JournalTest, NotesAreFoundByTheirOffsets) {
    auto writer = begin();
    EXPECT_TRUE(writer.note(70, "late"));
    EXPECT_TRUE(writer.note(5, "early one"));
    EXPECT_TRUE(writer.note(30, ""));
    Journal journal = read();
    EXPECT_TRUE(journal.exists());
    EXPECT_FALSE(journal.empty());
    EXPECT_EQ(journal.size(), 3);
    EXPECT_EQ(must(journal.at(0)), std::nullopt);
    EXPECT_EQ(must(journal.at(5)), "early one");
    EXPECT_EQ(must(journal.at(5)), "early one") << "as often as it is asked for";
    EXPECT_EQ(must(journal.at(29)), std::nullopt);
    EXPECT_EQ(must(journal.at(30)), "");
    EXPECT_EQ(must(journal.at(71)), std::nullopt);
    EXPECT_EQ(must(journal.at(71)), std::nullopt);
    Journal skipping = read();
    EXPECT_EQ(must(skipping.at(70)), "late");
}

TEST_F(JournalTest, WithoutAJournalThereAreNoNotes) {
    Journal journal = read();
    EXPECT_FALSE(journal.exists());
    EXPECT_TRUE(journal.empty());
    EXPECT_EQ(must(journal.at(0)), std::nullopt);
}

TEST_F(JournalTest, ANewJournalForgetsTheOldOne) {
    put_notes("5 old\n");
    EXPECT_EQ(read().size(), 1);
    static_cast<void>(begin());
    const Journal journal = read();
    EXPECT_TRUE(journal.exists());
    EXPECT_EQ(journal.size(), 0);
}

TEST_F(JournalTest, NotesEndWhereTheyCannotBeRead) {
    for (const char* wrong : {"x 20 line", "20", "20,line", " 20 line", "", "99999999999999999999 line"}) {
        put_notes("5 one\n6 two\n" + std::string(wrong) + "\n30 behind\n");
        EXPECT_EQ(read().size(), 2) << wrong;
    }
    put_notes("5 one\n20 torn");
    EXPECT_EQ(read().size(), 1);
    put_notes("20 \n");
    EXPECT_EQ(read().size(), 1) << "an empty line is a line";
}

TEST_F(JournalTest, AJournalOfAnotherFileHasNoNotes) {
    put_notes("5 one\n");
    put_notes("6 two\n");
    std::filesystem::remove(path_);
    put("another spool\n");
    file_ = File(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const Journal journal = read();
    EXPECT_TRUE(journal.exists());
    EXPECT_TRUE(journal.empty());
}

/// The longest line of a spool and what it may grow by.
TEST_F(JournalTest, ALongerNoteThanAnyLineNeedsIsNotRead) {
    constexpr std::size_t kOffset = 2;  // "0 "
    const std::string longest(kMaxSpoolLineBytes + kSpoolLineRoom - kOffset, 'x');
    put_notes("0 " + longest + "\n");
    Journal journal = read();
    EXPECT_TRUE(must(journal.at(0)) == longest);
    put_notes("0 " + longest + "x\n");
    EXPECT_EQ(read().size(), 0);
}

TEST_F(JournalTest, ANoteThatCannotBeWrittenIsAFailure) {
    int reached = 0;
    for (int nth = 1; nth < 20; ++nth) {
        FaultyFiles faulty(Fault::before, nth);
        auto writer = JournalWriter::begin(faulty, file_.get(), place_);
        if (!writer) continue;
        const auto noted = writer->note(5, "one");
        EXPECT_EQ(noted.has_value(), !faulty.reached());
        EXPECT_EQ(read().size(), noted ? 1 : 0);
        if (!noted) ++reached;
    }
    EXPECT_EQ(reached, 1);
}

}  // namespace
}  // namespace deliverd::spool
