#include "spool/spool_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/hmac.h"
#include "spool/json_members.h"
#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SpoolFileTest : public SpoolFixture {
protected:
    boost::json::object rejected(std::size_t index) {
        return boost::json::parse(lines_of(path_ + ".rejected").at(index)).as_object();
    }
};

TEST_F(SpoolFileTest, WhatIsDueGoesOutInOrderOfItsTimeAndIsRecordedOnce) {
    const std::int64_t now = clock_.now_ms;
    put(line("late", "pending", now, now - 1) + line("early", "pending", now, now - 9) +
        line("future", "pending", now, now + 1) + line("middle", "pending", now, now - 5, 4) +
        line("spent", "pending", now, now - 9, 5));
    std::vector<std::string> sent;
    const SpoolSummary summary = must(spool_->retry(
        [&](const SpoolPost& post) {
            sent.emplace_back(post.job_id);
            EXPECT_EQ(post.endpoint, "https://example.com/hooks");
            EXPECT_EQ(post.body, R"({"n":1,"idempotencyKey":")" + std::string(post.job_id) + "\"}");
            return SpoolAnswer{.delivered = post.job_id == "late", .error = {"boom", "503"}};
        },
        {}));
    EXPECT_THAT(sent, ElementsAre("early", "middle", "late"));
    EXPECT_EQ(summary.total, 3);
    EXPECT_EQ(summary.resolved, 1);
    EXPECT_EQ(summary.failed, 1);
    EXPECT_EQ(summary.exhausted, 1);
    EXPECT_THAT(ids(), ElementsAre("late", "early", "future", "middle", "spent"));
    EXPECT_EQ(must(spool_->find("middle"))->state, SpoolState::exhausted);
    EXPECT_EQ(must(spool_->find("early"))->error.code, "503");
    EXPECT_FALSE(exists(".journal"));
    EXPECT_FALSE(exists(".new"));
}

TEST_F(SpoolFileTest, ALineTornByACrashIsEndedByTheNextAppendAndThenMovedAside) {
    add();
    const std::string whole = text_of(path_);
    put(whole + R"({"jobId":"hook-torn","data":{"ho)");
    const SpoolEntry second = add();
    ASSERT_THAT(lines_of(path_), SizeIs(3));
    EXPECT_EQ(lines_of(path_)[2], second.json);
    EXPECT_THAT(ids(), SizeIs(2));
    EXPECT_EQ(must(spool_->cleanup()).rejected, 1);
    EXPECT_EQ(text_of(path_), whole + second.json + "\n");
    EXPECT_EQ(rejected(0).at("line").as_int64(), 2);
    EXPECT_EQ(rejected(0).at("text").as_string(), R"({"jobId":"hook-torn","data":{"ho)");
}

TEST_F(SpoolFileTest, AnEntryWithoutItsLineEndIsAnEntry) {
    std::string text = line("a", "pending", clock_.now_ms, 0);
    text.pop_back();
    put(text);
    EXPECT_THAT(ids(), ElementsAre("a"));
    EXPECT_EQ(must(spool_->retry(yes, {})).resolved, 1);
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::resolved);
    EXPECT_TRUE(text_of(path_).ends_with("\n"));
}

TEST_F(SpoolFileTest, UnreadableLinesAreReportedAndMovedWithNumberAndReason) {
    const std::string good = line("a", "pending", clock_.now_ms, clock_.now_ms + 1);
    const std::string bytes("\xff\x00\xfe", 3);
    const std::string huge(kMaxSpoolLineBytes + 10, 'x');
    put("nonsense\n" + good + "\n" + bytes + "\n" + huge + "\n" + good);
    std::vector<SpoolReject> told;
    EXPECT_EQ(must(spool_->each([](const SpoolEntry&) { return true; },
                                [&](const SpoolReject& reject) { told.push_back(reject); }))
                  .entries,
              2);
    ASSERT_THAT(told, SizeIs(3));
    EXPECT_EQ(told[0].line, 1);
    EXPECT_EQ(told[1].line, 4);
    EXPECT_EQ(told[2].line, 5);
    EXPECT_THAT(told[2].reason, HasSubstr("longer than"));
    EXPECT_EQ(must(spool_->retry(yes, {})).rejected, 3);
    EXPECT_EQ(text_of(path_), good + good);
    EXPECT_EQ(rejected(0).at("text").as_string(), "nonsense");
    EXPECT_EQ(base64_decoded(std::string(rejected(1).at("base64").as_string())), bytes);
    EXPECT_EQ(base64_decoded(std::string(rejected(2).at("base64").as_string())), huge);
    EXPECT_EQ(must(spool_->cleanup()).rejected, 0);
    EXPECT_THAT(lines_of(path_ + ".rejected"), SizeIs(3));
}

/// The lines are in FILE.rejected, and the file could not be replaced: the last record cut, and one longer than a line
/// may be.
TEST_F(SpoolFileTest, LinesThatARunThatDiedHasMovedAreNotMovedTwice) {
    const std::string huge(kMaxSpoolLineBytes + 10, 'x');
    put("one\n" + huge + "\ntwo\n" + line("a", "pending", clock_.now_ms, clock_.now_ms + 1) + "three\n");
    FaultyFiles watched(Fault::before, 0);
    watched.after_sync = [&](int) { std::filesystem::remove(path_ + ".lock"); };
    ASSERT_FALSE(SpoolFile(options(), watched, clock_, random_).cleanup());
    ASSERT_THAT(lines_of(path_ + ".rejected"), SizeIs(4));
    std::filesystem::resize_file(path_ + ".rejected", std::filesystem::file_size(path_ + ".rejected") - 5);
    EXPECT_EQ(must(spool_->cleanup()).rejected, 4);
    const auto records = lines_of(path_ + ".rejected");
    ASSERT_THAT(records, SizeIs(5));
    EXPECT_THAT(records[4], HasSubstr(R"("text":"three"})"));
}

TEST_F(SpoolFileTest, WhatARunThatDiedHadDoneIsRecordedByTheNext) {
    const std::int64_t now = clock_.now_ms;
    // The file cannot be replaced, as for a process that died before it could: the first call that has this effect.
    bool left_behind = false;
    for (int nth = 1; nth < 40 && !left_behind; ++nth) {
        put(line("a", "pending", now, now - 2) + line("b", "pending", now, now - 1));
        std::filesystem::remove(path_ + ".journal");
        int sends = 0;
        FaultyFiles faulty(Fault::before, nth);
        SpoolFile spool(options(), faulty, clock_, random_);
        const auto run = spool.retry(
            [&](const SpoolPost& post) {
                ++sends;
                return yes(post);
            },
            {});
        left_behind = sends == 2 && !run && must(spool_->find("a"))->state == SpoolState::pending;
    }
    ASSERT_TRUE(left_behind);
    const SpoolSummary next = must(spool_->retry(
        [](const SpoolPost& post) -> SpoolAnswer {
            ADD_FAILURE() << post.job_id << " was sent twice";
            return {};
        },
        {}));
    EXPECT_EQ(next.recovered, 2);
    EXPECT_EQ(next.total, 0);
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::resolved);
    EXPECT_EQ(must(spool_->find("b"))->state, SpoolState::resolved);
}

TEST_F(SpoolFileTest, ALineOfTheGreatestLengthIsRecordedAndThoseBehindItToo) {
    const std::int64_t now = clock_.now_ms;
    std::string longest = line("long", "pending", now, now - 2);
    longest.insert(1, R"("more":")" + std::string(kMaxSpoolLineBytes - longest.size() - 9, 'x') + R"(",)");
    ASSERT_EQ(longest.size(), kMaxSpoolLineBytes + 1);  // with its end
    put(longest + line("b", "pending", now, now - 1));
    EXPECT_EQ(must(spool_->retry(no, {})).failed, 2);
    EXPECT_EQ(must(spool_->find("b"))->attempts_made, 2);
    EXPECT_THAT(text_of(path_).substr(kMaxSpoolLineBytes - 300, 400), HasSubstr(R"("attemptsMade":2)"));
}

TEST_F(SpoolFileTest, AJournalAboutAnotherFileIsNotBelieved) {
    put(line("a", "pending", clock_.now_ms, clock_.now_ms + 1));
    std::ofstream(path_ + ".journal") << "deliverd spool journal of inode 1\n0 "
                                      << line("a", "resolved", clock_.now_ms, 0);
    EXPECT_EQ(must(spool_->retry(yes, {})).recovered, 0);
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::pending);
    EXPECT_FALSE(exists(".journal"));
}

TEST_F(SpoolFileTest, AStopRecordsWhatWasDone) {
    const std::int64_t now = clock_.now_ms;
    put(line("a", "pending", now, now - 2) + line("b", "pending", now, now - 1));
    int asked = 0;
    EXPECT_EQ(must(spool_->retry(yes, {.should_stop = [&] { return asked++ > 0; }})).total, 1);
    EXPECT_EQ(must(spool_->find("a"))->state, SpoolState::resolved);
    EXPECT_EQ(must(spool_->find("b"))->state, SpoolState::pending);
    EXPECT_TRUE(must(spool_->retry(yes, {.limit = 0})).more_due);
}

TEST_F(SpoolFileTest, ASenderThatThrowsOrAsksForTimeIsAFailedAttempt) {
    add();
    clock_.now_ms += 90'000;
    EXPECT_EQ(must(spool_->retry([](const SpoolPost&) -> SpoolAnswer { throw std::runtime_error("oh"); }, {})).failed,
              1);
    EXPECT_EQ(entries()[0].error.message, "oh");
    clock_.now_ms += kDay;
    must(spool_->retry([](const SpoolPost&) -> SpoolAnswer { return {.error = {"slow down"}, .wait_seconds = 1800}; },
                       {}));
    EXPECT_EQ(entries()[0].next_retry_ms, clock_.now_ms + 1'800'000);
    clock_.now_ms += kDay;
    must(spool_->retry([](const SpoolPost&) -> SpoolAnswer { return {.error = {"later"}, .wait_seconds = 2 * 86400}; },
                       {}));
    EXPECT_EQ(entries()[0].next_retry_ms, clock_.now_ms + 2 * kDay);
}

TEST_F(SpoolFileTest, ResolveAndReviveByHand) {
    put(line("a", "pending", 0, 0) + line("b", "exhausted", 0, 0, 5) + line("c", "resolved", 0, 0));
    const std::vector<std::string> wanted = {"a", "b", "c", "d"};
    EXPECT_THAT(must(spool_->revive(wanted)).job_ids, ElementsAre("b"));
    EXPECT_EQ(must(spool_->find("b"))->state, SpoolState::pending);
    EXPECT_THAT(must(spool_->resolve(wanted)).job_ids, ElementsAre("a", "b"));
    EXPECT_THAT(must(spool_->resolve(wanted)).job_ids, IsEmpty());
}

TEST_F(SpoolFileTest, EveryRunTellsOfTheLinesItMoves) {
    const std::vector<std::string> ids = {"a"};
    put("nonsense\n" + line("a", "exhausted", clock_.now_ms, 0, 5));
    EXPECT_EQ(must(spool_->revive(ids)).rejected, 1);
    put("nonsense\n" + line("a", "pending", clock_.now_ms, 0));
    EXPECT_EQ(must(spool_->resolve(ids)).rejected, 1);
    // Those that are moved by recording a run that died.
    put("nonsense\n" + line("a", "pending", clock_.now_ms, 0));
    FaultyFiles watched(Fault::before, 0);
    watched.before_open = [&](const std::string& opened) {
        if (opened.ends_with(".new")) std::filesystem::create_directory(path_ + ".new");
    };
    ASSERT_FALSE(SpoolFile(options(), watched, clock_, random_).retry(yes, {}));
    std::filesystem::remove(path_ + ".new");
    const SpoolSummary summary = must(spool_->retry(yes, {}));
    EXPECT_EQ(summary.recovered, 1);
    EXPECT_EQ(summary.rejected, 1);
}

TEST_F(SpoolFileTest, AMissingFileIsSaidAndNothingIsLeftBehind) {
    for (const auto& error : {spool_->retry(yes, {}).error(), spool_->cleanup().error(), spool_->due(1).error(),
                              spool_->find("x").error()}) {
        EXPECT_EQ(error.code, "spool_missing");
        EXPECT_THAT(error.message, HasSubstr("hooks.jsonl"));
    }
    EXPECT_FALSE(exists(".work.lock"));
    SpoolOptions nowhere{.path = folder_.file("no/such/folder.jsonl")};
    EXPECT_FALSE(SpoolFile(nowhere, *files_, clock_, random_).add({.endpoint = "http://e/"}));
}

TEST_F(SpoolFileTest, WhatCannotBeAnEntryIsRefused) {
    const auto code = [&](const NewSpoolEntry& entry) {
        const auto added = spool_->add(entry);
        return added ? "added" : added.error().code;
    };
    EXPECT_EQ(code({.endpoint = "ftp://e/"}), "bad_argument");
    EXPECT_EQ(code({.endpoint = "http://e/", .payload = "{"}), "bad_argument");
    EXPECT_EQ(code({.endpoint = "http://e/", .payload = ""}), "bad_argument");
    EXPECT_EQ(code({.endpoint = "http://e/", .attempts_made = -1}), "bad_argument");
    EXPECT_EQ(code({.endpoint = "http://e/", .payload = "\"" + std::string(kMaxSpoolLineBytes, 'x') + "\""}),
              "payload_too_large");
    const std::string deep = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
    EXPECT_EQ(code({.endpoint = "http://e/", .payload = deep}), "bad_argument");
    EXPECT_FALSE(exists(""));
    EXPECT_EQ(code({.endpoint = "http://e/", .payload = "{\n\"a\":\r\n1}"}), "added");
    EXPECT_EQ(entries()[0].payload, R"({ "a":  1})");
    EXPECT_FALSE(open_spool({.path = ""}));
    EXPECT_FALSE(open_spool({.path = "x", .name = "a b"}));
}

TEST_F(SpoolFileTest, ANameHasOneTo64PlainCharacters) {
    EXPECT_TRUE(is_spool_name("a"));
    EXPECT_TRUE(is_spool_name(std::string(64, 'x')));
    EXPECT_TRUE(is_spool_name("A-z_0.9"));
    EXPECT_FALSE(is_spool_name(""));
    EXPECT_FALSE(is_spool_name(std::string(65, 'x')));
    for (const char* wrong : {"a b", "a/b", "\xc3\xa4", "a\n"}) EXPECT_FALSE(is_spool_name(wrong)) << wrong;
    EXPECT_TRUE(check_options({.path = "x"}));
    EXPECT_FALSE(check_options({.path = std::string("x\0y", 3)}));
    EXPECT_TRUE(must(open_spool({.path = path_}))->add({.endpoint = "http://e/"}));
}

TEST_F(SpoolFileTest, AScanCountsWhatItReadAndEndsWhereItIsTold) {
    put(line("a", "pending", 1, 1) + "garbage\n\n" + line("b", "pending", 1, 2) + "torn");
    std::vector<SpoolReject> rejects;
    int left = 9;
    const auto scan = [&] {
        return must(spool_->each([&](const SpoolEntry&) { return --left > 0; },
                                 [&](const SpoolReject& reject) { rejects.push_back(reject); }));
    };
    const SpoolScan whole = scan();
    EXPECT_EQ(whole.entries, 2);
    EXPECT_EQ(whole.rejects, 2);
    ASSERT_THAT(rejects, SizeIs(2));
    EXPECT_FALSE(rejects[0].torn);
    EXPECT_TRUE(rejects[1].torn);
    EXPECT_THAT(rejects[1].reason, HasSubstr("torn by a crash"));
    EXPECT_EQ(rejects[0].reason, "is not a JSON object");
    left = 1;
    const SpoolScan first = scan();
    EXPECT_EQ(first.entries, 1);
    EXPECT_EQ(first.rejects, 0);
    EXPECT_EQ(must(spool_->find("nobody")), std::nullopt);
}

TEST_F(SpoolFileTest, OfSeveralWithOneIdTheFirstIsFound) {
    put(line("a", "pending", 1, 1) + line("a", "pending", 1, 2));
    EXPECT_EQ(must(spool_->find("a"))->next_retry_ms, 1);
}

/// Notes that are not about these entries, as by somebody who edited the file.
TEST_F(SpoolFileTest, ANoteChangesOnlyItsOwnPendingEntry) {
    const std::string pending = line("a", "pending", 1, clock_.now_ms + 1);
    const std::string exhausted = line("b", "exhausted", clock_.now_ms, clock_.now_ms, 5);
    put(pending + exhausted + pending + pending);
    const auto run = [&](const std::string& notes) {
        const Place place = must(find_place(*files_, path_));
        const File file(files_->open(place.folder.get(), place.name, O_RDONLY, 0));
        static_cast<void>(must(JournalWriter::begin(*files_, file.get(), place)));
        std::ofstream(path_ + ".journal", std::ios::app | std::ios::binary) << notes;
        return must(spool_->retry(yes, {})).recovered;
    };
    const auto note = [](std::size_t offset, const std::string& line) { return std::to_string(offset) + " " + line; };
    const std::size_t second = pending.size();
    const std::size_t third = second + exhausted.size();
    EXPECT_EQ(run(note(0, line("other", "resolved", 1, 1)) + note(second, line("b", "resolved", 1, 1)) +
                  note(third, "no entry\n") + note(third + pending.size(), line("a", "resolved", 1, 1))),
              1);
    std::vector<SpoolState> states;
    for (const SpoolEntry& entry : entries()) states.push_back(entry.state);
    EXPECT_THAT(states,
                ElementsAre(SpoolState::pending, SpoolState::exhausted, SpoolState::pending, SpoolState::resolved));
    EXPECT_FALSE(exists(".journal"));
}

TEST_F(SpoolFileTest, AnOldJournalThatCannotBeRemovedEndsTheRun) {
    const std::string text = line("a", "pending", clock_.now_ms, 0);
    bool said = false;
    for (int nth = 1; nth < 30 && !said; ++nth) {
        put(text);
        std::ofstream(path_ + ".journal") << "of another file\n";
        FaultyFiles faulty(Fault::before, nth);
        const auto run = SpoolFile(options(), faulty, clock_, random_).retry(yes, {});
        said = !run && run.error().message.find("cannot remove " + path_ + ".journal") != std::string::npos;
        EXPECT_TRUE(!said || text_of(path_) == text) << "nothing was sent";
    }
    EXPECT_TRUE(said);
}

/// A file of arbitrary lines: each is an entry that is still there after a cleanup, or in FILE.rejected; nothing else
/// is.
RC_GTEST_FIXTURE_PROP(SpoolFileTest, FuzzedFilesLoseNothing, ()) {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::oneOf(
        rc::gen::container<std::string>(rc::gen::arbitrary<char>()), rc::gen::just(line("a", "pending", 5, 5)),
        rc::gen::map(rc::gen::inRange<std::size_t>(1, 150),
                     [](std::size_t cut) { return line("b", "pending", 5, 5).substr(0, cut); })));
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    std::filesystem::remove(path_ + ".rejected");
    put(text);
    std::vector<std::string> expected_kept;
    std::vector<std::string> expected_rejected;
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string one = text.substr(begin, end - begin);
        begin = end + 1;
        if (one.find_first_not_of(" \t\r") == std::string::npos) continue;
        (parse_entry(one) ? expected_kept : expected_rejected).push_back(one);
    }
    const SpoolCleanup cleanup = must(spool_->cleanup());
    RC_ASSERT(cleanup.rejected == static_cast<std::int64_t>(expected_rejected.size()));
    std::vector<std::string> kept;
    for (const SpoolEntry& entry : entries()) kept.push_back(entry.json);
    RC_ASSERT(kept == expected_kept);
    std::vector<std::string> moved;
    for (const std::string& record : lines_of(path_ + ".rejected")) {
        const auto object = boost::json::parse(record).as_object();
        moved.push_back(object.contains("text") ? std::string(object.at("text").as_string())
                                                : *base64_decoded(std::string(object.at("base64").as_string())));
    }
    RC_ASSERT(moved == expected_rejected);
}

/// Bytes that this process has read and written through system calls.
std::pair<std::int64_t, std::int64_t> bytes_so_far() {
    std::ifstream file("/proc/self/io");
    std::string name;
    std::int64_t read = -1;
    std::int64_t written = -1;
    file >> name >> read >> name >> written;
    return {read, written};
}

TEST_F(SpoolFileTest, AnAppendReadsAndWritesTheSameHoweverLargeTheFileIs) {
    const auto cost = [&] {
        const auto before = bytes_so_far();
        must(spool_->add({.endpoint = "http://e/", .job_id = "hook-1"}));
        const auto after = bytes_so_far();
        return std::pair(after.first - before.first, after.second - before.second);
    };
    static_cast<void>(cost());  // and what is done once in a process
    put("\n");
    const auto small = cost();
    put("\n");
    constexpr std::int64_t kGigabyte = 1 << 30;
    std::filesystem::resize_file(path_, kGigabyte);
    std::ofstream(path_, std::ios::app) << "\n";
    const auto large = cost();
    EXPECT_GT(small.second, 0);
    // What is read of /proc itself differs by digits.
    constexpr std::int64_t kDigits = 64;
    EXPECT_NEAR(static_cast<double>(large.first), static_cast<double>(small.first), kDigits);
    EXPECT_EQ(large.second, small.second);
}

}  // namespace
}  // namespace deliverd::spool
