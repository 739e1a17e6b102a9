// Entries given away and taken back, and the process that dies in between, at each call.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr int kMostHandOverCalls = 80;  // a run makes far fewer

class HandOver : public SpoolFixture {
protected:
    /// To a keeper that remembers how often it was given each.
    SpoolHandOver order(bool mark) {
        SpoolHandOver order;
        order.wanted = is_unmarked;
        order.take = [this](std::span<const SpoolEntry> entries) -> Result<std::vector<std::size_t>> {
            batches_.push_back(entries.size());
            std::vector<std::size_t> refused;
            for (std::size_t i = 0; i < entries.size(); ++i) {
                if (refuses_(entries[i])) {
                    refused.push_back(i);
                } else {
                    ++kept_[entries[i].job_id];
                }
            }
            return refused;
        };
        if (mark) order.receipt = [](const SpoolEntry& entry) { return "letter-" + entry.job_id; };
        return order;
    }
    std::string exhausted(const std::string& id) { return line(id, "exhausted", clock_.now_ms, clock_.now_ms, 5); }
    SpoolEntry at(const std::string& id) { return must(spool_->find(id)).value(); }
    SpoolReturned back(const std::string& id, const std::string& receipt, const std::string& text = {},
                       bool add = false) {
        const SpoolReturn wanted{.job_id = id, .receipt = receipt, .line = text, .add_if_gone = add};
        return must(spool_->put_back(std::span(&wanted, 1))).at(0);
    }

    std::vector<std::size_t> batches_;
    std::map<std::string, int> kept_;
    std::function<bool(const SpoolEntry&)> refuses_ = [](const SpoolEntry&) { return false; };
};

TEST_F(HandOver, MarksWhatWasTakenOnceAndLeavesTheRest) {
    put(exhausted("a") + line("p", "pending", 1, 1) + "garbage\n" + exhausted("b") + line("r", "resolved", 1, 1));
    const auto done = must(spool_->hand_over(order(true)));
    EXPECT_EQ(done.taken, 2);
    EXPECT_EQ(done.rejected, 1);
    EXPECT_THAT(kept_, ElementsAre(Pair("a", 1), Pair("b", 1)));
    EXPECT_EQ(at("a").dead_letter, "letter-a");
    EXPECT_EQ(at("p").dead_letter, std::nullopt);
    EXPECT_THAT(ids(), ElementsAre("a", "p", "b", "r"));
    const std::string before = text_of(path_);
    EXPECT_EQ(must(spool_->hand_over(order(true))).taken, 0);
    EXPECT_EQ(text_of(path_), before);
    EXPECT_THAT(kept_, ElementsAre(Pair("a", 1), Pair("b", 1)));
}

TEST_F(HandOver, RemovesWhatWasTakenButNotWhatWasRefused) {
    put(exhausted("a") + exhausted("odd") + exhausted("b"));
    refuses_ = [](const SpoolEntry& entry) { return entry.job_id == "odd"; };
    const auto done = must(spool_->hand_over(order(false)));
    EXPECT_EQ(done.taken, 2);
    EXPECT_EQ(done.refused, 1);
    EXPECT_EQ(text_of(path_), exhausted("odd"));
}

TEST_F(HandOver, WhatWasTakenBeforeAFailureOrAStopIsNotGivenAgain) {
    std::string text;
    for (std::size_t n = 0; n < 3 * kSpoolBatch; ++n) text += exhausted("e" + std::to_string(n));
    put(text);
    SpoolHandOver failing = order(false);
    failing.take = [this, take = failing.take](std::span<const SpoolEntry> entries) {
        return batches_.size() == 1 ? Result<std::vector<std::size_t>>(retryable("db_unreachable", "away"))
                                    : take(entries);
    };
    const auto failed = spool_->hand_over(failing);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, "db_unreachable");
    EXPECT_EQ(entries().size(), 2 * kSpoolBatch);
    SpoolHandOver stopped = order(false);
    stopped.should_stop = [] { return true; };
    EXPECT_EQ(must(spool_->hand_over(stopped)).taken, static_cast<std::int64_t>(kSpoolBatch));
    EXPECT_EQ(must(spool_->hand_over(order(false))).taken, static_cast<std::int64_t>(kSpoolBatch));
    EXPECT_TRUE(entries().empty());
    EXPECT_EQ(kept_.size(), 3 * kSpoolBatch);
    EXPECT_TRUE(std::ranges::all_of(kept_, [](const auto& kept) { return kept.second == 1; }));
    EXPECT_EQ(std::ranges::max(batches_), kSpoolBatch);
}

TEST_F(HandOver, ABatchEndsWithTheEntryThatMakesItLarge) {
    const std::string half = "\"" + std::string(kSpoolBatchBytes / 2, 'x') + "\"";
    std::string text;
    for (const char* id : {"a", "b", "c"}) {
        std::string one = exhausted(id);
        const std::string payload = R"({"n":1})";
        text += one.replace(one.find(payload), payload.size(), half);
    }
    put(text);
    EXPECT_EQ(must(spool_->hand_over(order(true))).taken, 3);
    EXPECT_THAT(batches_, ElementsAre(2, 1));
}

TEST_F(HandOver, AStopIsAskedForBetweenBatches) {
    std::string text;
    for (std::size_t n = 0; n < kSpoolBatch; ++n) text += exhausted("e" + std::to_string(n));
    put(text + exhausted("last"));
    int asked = 0;
    SpoolHandOver both = order(true);
    both.should_stop = [&] {
        ++asked;
        return false;
    };
    EXPECT_EQ(must(spool_->hand_over(both)).taken, static_cast<std::int64_t>(kSpoolBatch) + 1);
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(at("last").dead_letter, "letter-last");
}

TEST_F(HandOver, SeveralThatAreRefusedStay) {
    put(exhausted("odd-1") + exhausted("a") + exhausted("odd-2") + exhausted("odd-3"));
    SpoolHandOver reversed = order(false);
    reversed.take = [](std::span<const SpoolEntry>) { return std::vector<std::size_t>{3, 2, 0}; };
    const auto done = must(spool_->hand_over(reversed));
    EXPECT_EQ(done.taken, 1);
    EXPECT_EQ(done.refused, 3);
    EXPECT_THAT(ids(), ElementsAre("odd-1", "odd-2", "odd-3"));
}

TEST_F(HandOver, WhereNothingIsTakenTheFileIsNotReplaced) {
    put("garbage\n" + exhausted("odd"));
    refuses_ = [](const SpoolEntry&) { return true; };
    const std::string before = text_of(path_);
    const auto done = must(spool_->hand_over(order(true)));
    EXPECT_EQ(done.refused, 1);
    EXPECT_EQ(done.rejected, 0);
    EXPECT_EQ(text_of(path_), before);
}

TEST_F(HandOver, WhatARunThatDiedLeftIsCountedToo) {
    put("garbage\n" + line("a", "pending", 1, 1) + exhausted("b"));
    FaultyFiles watched(Fault::before, 0);
    watched.before_open = [&](const std::string& opened) {
        if (opened.ends_with(".new")) std::filesystem::create_directory(path_ + ".new");
    };
    ASSERT_FALSE(SpoolFile(options(), watched, clock_, random_).retry(yes, {}));
    std::filesystem::remove(path_ + ".new");
    const auto done = must(spool_->hand_over(order(true)));
    EXPECT_EQ(done.taken, 1);
    EXPECT_EQ(done.rejected, 1);
}

TEST_F(HandOver, OfSeveralLinesWithOneIdTheBestAnswerCounts) {
    const std::string resolved = line("a", "resolved", 1, 1);
    for (const bool reversed : {false, true}) {
        put(exhausted("a"));
        must(spool_->hand_over(order(true)));
        const std::string marked = text_of(path_);
        put(reversed ? resolved + marked : marked + resolved);
        EXPECT_EQ(back("a", "letter-a"), SpoolReturned::revived);
        EXPECT_EQ(back("a", "letter-a"), SpoolReturned::before);
        EXPECT_EQ(back("a", "other"), SpoolReturned::resolved);
    }
}

TEST_F(HandOver, EachIsAnsweredAndOnlyWhatMayBeRevivedChanges) {
    put(exhausted("a") + exhausted("b") + line("c", "retrying", 1, 1));
    must(spool_->hand_over(order(true)));
    const std::vector<SpoolReturn> wanted = {{.job_id = "c", .receipt = "letter-c"},
                                             {.job_id = "b", .receipt = "letter-b"},
                                             {.job_id = "nobody", .receipt = "letter-x"},
                                             {.job_id = "a", .receipt = "wrong"}};
    EXPECT_THAT(must(spool_->put_back(wanted)),
                ElementsAre(SpoolReturned::pending, SpoolReturned::revived, SpoolReturned::gone, SpoolReturned::again));
    EXPECT_EQ(at("b").state, SpoolState::pending);
    EXPECT_EQ(at("a").state, SpoolState::exhausted);
    EXPECT_EQ(at("c").state, SpoolState::retrying);
}

TEST_F(HandOver, ABusyFileIsNotAMissingOne) {
    put(exhausted("a"));
    const File lock = must(take_lock(*files_, must(find_place(*files_, path_)), ".work.lock", 0, "nobody"));
    SpoolOptions hasty = options();
    hasty.work_wait_seconds = 0;
    const SpoolReturn wanted{.job_id = "a", .receipt = "letter-a", .line = "{}", .add_if_gone = true};
    const auto back = SpoolFile(hasty, *files_, clock_, random_).put_back(std::span(&wanted, 1));
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().code, "spool_busy");
}

TEST_F(HandOver, WhatIsAddedMeanwhileStays) {
    put(exhausted("a"));
    SpoolHandOver adding = order(false);
    adding.take = [this, take = adding.take](std::span<const SpoolEntry> entries) {
        SpoolFile other(options(), *files_, clock_, random_);
        must(other.add({.endpoint = "http://e/", .attempts_made = 4, .job_id = "meanwhile"}));
        return take(entries);
    };
    EXPECT_EQ(must(spool_->hand_over(adding)).taken, 1);
    EXPECT_THAT(ids(), ElementsAre("meanwhile"));
    EXPECT_THAT(kept_, ElementsAre(Pair("a", 1)));
}

TEST_F(HandOver, ARetryCountsWhatIsNotHandedOver) {
    put(exhausted("a") + line("last", "pending", 1, 1, 4) + line("p", "pending", 1, 1));
    EXPECT_EQ(must(spool_->retry(no, {})).unmarked, 2);
    must(spool_->hand_over(order(true)));
    EXPECT_EQ(must(spool_->retry(no, {})).unmarked, 0);
}

TEST_F(HandOver, PutBackOnceHoweverOftenItIsAsked) {
    put(exhausted("a") + exhausted("b"));
    must(spool_->hand_over(order(true)));
    clock_.now_ms += 1000;
    EXPECT_EQ(back("a", "letter-a"), SpoolReturned::revived);
    const SpoolEntry revived = at("a");
    EXPECT_EQ(revived.state, SpoolState::pending);
    EXPECT_EQ(revived.attempts_made, 0);
    EXPECT_EQ(revived.next_retry_ms, clock_.now_ms);
    EXPECT_EQ(revived.dead_letter, std::nullopt);
    EXPECT_EQ(revived.revived_from, "letter-a");
    EXPECT_EQ(at("b").state, SpoolState::exhausted);
    const std::string before = text_of(path_);
    EXPECT_EQ(back("a", "letter-a"), SpoolReturned::before);
    EXPECT_EQ(back("a", "other"), SpoolReturned::pending);
    EXPECT_EQ(back("nobody", "x"), SpoolReturned::gone);
    EXPECT_EQ(text_of(path_), before);
    must(spool_->retry(yes, {}));
    EXPECT_EQ(back("a", "letter-a"), SpoolReturned::before) << "also when it was delivered";
    EXPECT_EQ(back("a", "other"), SpoolReturned::resolved);
}

TEST_F(HandOver, AnEarlierReceiptDoesNotPutBackALaterFailure) {
    put(line("a", "exhausted", 1, 1, 1));
    must(spool_->hand_over(order(true)));
    EXPECT_EQ(back("a", "letter-a"), SpoolReturned::revived);
    for (int n = 0; n < 5; ++n) {
        must(spool_->retry(no, {}));
        clock_.now_ms += kDay;
    }
    SpoolHandOver second = order(true);
    second.receipt = [](const SpoolEntry& entry) { return "second-" + entry.revived_from.value_or(""); };
    must(spool_->hand_over(second));
    EXPECT_EQ(at("a").dead_letter, "second-letter-a");
    EXPECT_EQ(back("a", "stranger"), SpoolReturned::again);
    EXPECT_EQ(back("a", "letter-a"), SpoolReturned::before);
    EXPECT_EQ(at("a").state, SpoolState::exhausted);
    EXPECT_EQ(back("a", "second-letter-a"), SpoolReturned::revived);
    EXPECT_EQ(at("a").revived_from, "second-letter-a");
}

TEST_F(HandOver, WithoutAMarkItsLineTells) {
    put(exhausted("a"));
    std::string text = exhausted("a");
    text.pop_back();
    EXPECT_EQ(back("a", "letter-a", "{}"), SpoolReturned::again);
    EXPECT_EQ(back("a", "letter-a", text), SpoolReturned::revived);
    EXPECT_EQ(back("a", "letter-a", text), SpoolReturned::before);
}

TEST_F(HandOver, WhatIsGoneIsAddedWhereThatIsWantedAlsoWithoutAFile) {
    std::string text = exhausted("a");
    text.pop_back();
    EXPECT_EQ(back("a", "letter-a", text), SpoolReturned::gone);
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_EQ(back("a", "letter-a", "no entry", true), SpoolReturned::gone);
    EXPECT_EQ(back("a", "letter-a", text, true), SpoolReturned::revived);
    EXPECT_EQ(back("a", "letter-a", text, true), SpoolReturned::before);
    EXPECT_THAT(ids(), ElementsAre("a"));
    EXPECT_EQ(must(spool_->retry(yes, {})).resolved, 1);
}

TEST_F(HandOver, ASenderThatIsCutShortLeavesItsEntry) {
    put(line("a", "pending", 1, 1) + line("b", "pending", 1, 2, 4) + line("c", "pending", 1, 3));
    const auto run = must(spool_->retry(
        [](const SpoolPost& post) { return SpoolAnswer{.delivered = true, .cut_short = post.job_id == "b"}; }, {}));
    EXPECT_EQ(run.total, 1);
    EXPECT_EQ(at("a").state, SpoolState::resolved);
    EXPECT_EQ(at("b").json + "\n", line("b", "pending", 1, 2, 4));
    EXPECT_EQ(at("c").state, SpoolState::pending);
    EXPECT_FALSE(exists(".journal"));
}

/// In a process of its own; whether it died at the fault.
template <typename Work>
bool dies(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
        work();
        ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

TEST_F(HandOver, KilledAtEveryCallNothingIsLostAndTheSameIsGivenAgain) {
    for (const bool mark : {true, false}) {
        for (const Fault fault : {Fault::die_before, Fault::die_half, Fault::die_after}) {
            bool died = true;
            for (int nth = 1; died; ++nth) {
                SCOPED_TRACE("call " + std::to_string(nth));
                ASSERT_LT(nth, kMostHandOverCalls);
                put(exhausted("a") + line("p", "pending", 1, 1) + exhausted("b"));
                kept_.clear();
                died = dies([&] {
                    FaultyFiles faulty(fault, nth);
                    SpoolFile spool(options(), faulty, clock_, random_);
                    (void)spool.hand_over(order(mark));
                });
                must(spool_->hand_over(order(mark)));
                // What the dead one gave is not known here: at most it is given once more.
                for (const char* id : {"a", "b"}) {
                    if (mark) {
                        EXPECT_EQ(at(id).dead_letter, "letter-" + std::string(id));
                    }
                    EXPECT_LE(kept_[id], 1);
                }
                EXPECT_EQ(ids(), mark ? std::vector<std::string>({"a", "p", "b"}) : std::vector<std::string>({"p"}));
                if (HasFailure()) return;
            }
        }
    }
}

TEST_F(HandOver, PutBackKilledAtEveryCallAndRepeatedIsThereOnce) {
    put(exhausted("a") + line("p", "pending", 1, 1));
    must(spool_->hand_over(order(true)));
    const std::string before = text_of(path_);
    std::string gone = exhausted("gone");
    gone.pop_back();
    const std::vector<SpoolReturn> wanted = {
        {.job_id = "a", .receipt = "letter-a"},
        {.job_id = "gone", .receipt = "letter-gone", .line = gone, .add_if_gone = true}};
    for (const Fault fault : {Fault::die_before, Fault::die_half, Fault::die_after}) {
        bool died = true;
        for (int nth = 1; died; ++nth) {
            SCOPED_TRACE("call " + std::to_string(nth));
            ASSERT_LT(nth, kMostHandOverCalls);
            put(before);
            died = dies([&] {
                FaultyFiles faulty(fault, nth);
                SpoolFile spool(options(), faulty, clock_, random_);
                (void)spool.put_back(wanted);
            });
            for (const SpoolReturned answer : must(spool_->put_back(wanted))) {
                EXPECT_TRUE(answer == SpoolReturned::revived || answer == SpoolReturned::before);
            }
            EXPECT_THAT(ids(), ElementsAre("a", "p", "gone"));
            EXPECT_EQ(at("a").state, SpoolState::pending);
            EXPECT_EQ(at("gone").state, SpoolState::pending);
            if (HasFailure()) return;
        }
    }
}

TEST_F(HandOver, ARetryDoesNotSendWhatIsOnlyBeingAppended) {
    const std::string there = line("a", "pending", 1, 1);
    put(there);
    // Somebody has the lock and has written, but its fsync is going to fail: then it takes the line back.
    File appender = must(take_lock(*files_, must(find_place(*files_, path_)), ".lock", 0, "nobody"));
    put(there + line("unsure", "pending", 1, 1));
    int asked = 0;
    FaultyFiles faulty(Fault::before, 0);
    faulty.before_lock = [&] {
        if (++asked != 2) return;  // the first lock is FILE.work.lock
        std::filesystem::resize_file(path_, there.size());
        appender = File();
    };
    std::vector<std::string> sent;
    SpoolFile spool(options(), faulty, clock_, random_);
    must(spool.retry(
        [&](const SpoolPost& post) {
            sent.emplace_back(post.job_id);
            return SpoolAnswer{.delivered = true};
        },
        {}));
    EXPECT_GE(asked, 2);
    EXPECT_THAT(sent, ElementsAre("a"));
}

}  // namespace
}  // namespace deliverd::spool
