// Lines compared with those of a simple model, for any file and any way to read it.
#include "spool/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

/// A line with its text copied.
struct ReadLine {
    std::int64_t offset = 0;
    std::int64_t number = 0;
    std::int64_t bytes = 0;
    std::string text;
    bool ended = true;
    bool too_long = false;
    bool operator==(const ReadLine&) const = default;
};

std::vector<ReadLine> lines_by_model(const std::string& file, const Reading& reading) {
    std::vector<ReadLine> lines;
    const auto end = static_cast<std::size_t>(std::min(reading.end, static_cast<std::int64_t>(file.size())));
    auto at = static_cast<std::size_t>(reading.from.offset);
    for (std::int64_t number = reading.from.number; at < end; ++number) {
        const std::size_t found = file.find('\n', at);
        const bool ended = found != std::string::npos && found < end;
        const std::size_t bytes = (ended ? found : end) - at;
        const bool too_long = bytes > reading.max_line;
        lines.push_back({static_cast<std::int64_t>(at), number, static_cast<std::int64_t>(bytes),
                         too_long ? "" : file.substr(at, bytes), ended, too_long});
        at += bytes + 1;
    }
    return lines;
}

class LineReaderTest : public SpoolFixture {
protected:
    [[nodiscard]] File open() const { return File(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)); }
    std::vector<ReadLine> lines(const Reading& reading) {
        const File file = open();
        LineReader reader(*files_, file.get(), path_, reading);
        std::vector<ReadLine> all;
        while (const auto line = must(reader.next())) {
            all.push_back(
                {line->at.offset, line->at.number, line->bytes, std::string(line->text), line->ended, line->too_long});
        }
        EXPECT_FALSE(must(reader.next())) << "it stays at the end";
        return all;
    }
};

RC_GTEST_FIXTURE_PROP(LineReaderTest, LinesAreThoseOfTheModel, ()) {
    // Short and long runs of a letter, and line ends.
    const auto piece = rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 3), rc::gen::inRange<std::size_t>(1, 40)),
                                    [](const std::pair<int, std::size_t>& drawn) {
                                        return drawn.first == 0 ? "\n" : std::string(drawn.second, 'x');
                                    });
    std::string text;
    for (const std::string& each : *rc::gen::container<std::vector<std::string>>(piece)) text += each;
    put(text);
    const auto size = static_cast<std::int64_t>(text.size());
    const Reading reading{.from = {*rc::gen::inRange<std::int64_t>(0, size + 1), *rc::gen::inRange(1, 5)},
                          .chunk = *rc::gen::inRange<std::size_t>(1, 20),
                          .end = *rc::gen::elementOf(std::vector<std::int64_t>{kWholeFile, size, size / 2, 1}),
                          .max_line = *rc::gen::inRange<std::size_t>(0, 50)};
    RC_ASSERT(lines(reading) == lines_by_model(text, reading));
}

TEST_F(LineReaderTest, WithoutOptionsAFileIsReadFromEndToEnd) {
    const std::string text = std::string(kReadChunk + 1, 'x') + "\n\n" + std::string(kMaxSpoolLineBytes, 'y') + "\n" +
                             std::string(kMaxSpoolLineBytes + 1, 'z') + "\nlast";
    put(text);
    EXPECT_TRUE(lines({}) == lines_by_model(text, {}));
}

TEST_F(LineReaderTest, ALineThatHadNoEndIsReadAgainByANewReader) {
    put("one\ntw");
    const File file = open();
    LineReader reader(*files_, file.get(), path_);
    static_cast<void>(must(reader.next()));
    const Line torn = must(reader.next()).value();
    EXPECT_FALSE(torn.ended);
    put("one\ntwo\n");
    LineReader later(*files_, file.get(), path_, {.from = torn.at});
    EXPECT_EQ(must(later.next()).value().text, "two");
}

TEST_F(LineReaderTest, WhiteSpaceIsBlankAndALongLineIsNot) {
    const auto is_blank = [](std::string_view text) {
        Line line;
        line.text = text;
        return line.is_blank();
    };
    EXPECT_TRUE(is_blank(""));
    EXPECT_TRUE(is_blank(" \t\r"));
    EXPECT_FALSE(is_blank(" x "));
    Line longer;
    longer.too_long = true;
    EXPECT_FALSE(longer.is_blank());
}

TEST_F(LineReaderTest, AFailureToReadIsReported) {
    const File folder(files_->open_folder(std::filesystem::path(path_).parent_path().string()));
    LineReader reader(*files_, folder.get(), "here");
    const auto line = reader.next();
    ASSERT_FALSE(line);
    EXPECT_EQ(line.error().message, "cannot read here: Is a directory");
    EXPECT_EQ(read_piece(*files_, folder.get(), 0, 1, "here").error().message, "cannot read here: Is a directory");
}

TEST_F(LineReaderTest, APieceIsWholeOrAFailure) {
    put("0123456789");
    const File file = open();
    EXPECT_EQ(must(read_piece(*files_, file.get(), 2, 3, path_)), "234");
    EXPECT_EQ(must(read_piece(*files_, file.get(), 9, 1, path_)), "9");
    EXPECT_EQ(must(read_piece(*files_, file.get(), 9, 0, path_)), "");
    for (const auto& [offset, bytes] : {std::pair(9, 2U), std::pair(10, 1U)}) {
        EXPECT_EQ(read_piece(*files_, file.get(), offset, bytes, path_).error().message,
                  "cannot read " + path_ + ": Input/output error");
    }
}

}  // namespace
}  // namespace deliverd::spool
