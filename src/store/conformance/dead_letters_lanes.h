// The guarantees of store/dead_letters.h about lanes: rows that are given up, and rows that go back, for every store.
// Those of event tables are in event_letters.h, redrives in redrive.h.
#pragma once

#include <latch>
#include <thread>

#include "store/conformance/events_fixture.h"
#include "store/dead_letters.h"

namespace deliverd::store::conformance {

/// What the suites on letters share.
class LettersFixture : public EventTableFixture {
protected:
    void SetUp() override {
        EventTableFixture::SetUp();
        letters_ = store_->database().dead_letters();
        ASSERT_TRUE(letters_);
    }
    static RetryRequest request(const std::string& owner) { return {owner, "ann", std::chrono::seconds(60)}; }
    RetryClaim begin(const std::string& id, const std::string& owner = "o") {
        return must(letters_->begin_retry(std::span(&id, 1), request(owner))).at(0);
    }
    bool end(const std::string& id, RetryResult result, const std::string& owner = "o") {
        const RetryEnd end{id, result, "because"};
        return must(letters_->end_retry(owner, "ann", std::span(&end, 1))) == 1;
    }
    std::string give_back(const std::string& id, const std::string& owner = "o") {
        return must(letters_->return_to_lane(owner, "ann", std::span(&id, 1))).at(0);
    }
    std::vector<Letter> of_topic(const std::string& topic) {
        LetterQuery query;
        query.topic = topic;
        query.limit = 1000;
        LetterPage page = must(letters_->list(query));
        EXPECT_EQ(page.total, static_cast<std::int64_t>(page.letters.size()));
        return std::move(page.letters);
    }
    Letter only_letter(const std::string& topic) {
        auto letters = of_topic(topic);
        EXPECT_EQ(letters.size(), 1U);
        return letters.empty() ? Letter() : letters.front();
    }
    LetterDetail detail(const std::string& id) { return must(letters_->find(id)).value(); }
    Letter letter(const std::string& id) { return detail(id).letter; }
    /// As if the leases of all retries had run out.
    void age_retries() {
        store_->execute("update " + GetParam().letters + " set retry_expires_at = " + store_->time_expression(-1) +
                        " where retry_owner is not null");
    }
    /// As if it had been retried as often as it may be, in doubt at last.
    void exhaust(const std::string& id) {
        store_->execute("update " + GetParam().letters + " set retry_count = 3, in_doubt = true where id = '" + id +
                        "'");
    }
    /// "from>to" of each line of the audit, with its action.
    std::vector<std::string> trail(const std::string& id) {
        std::vector<std::string> lines;
        for (const LetterAudit& line : must(letters_->audit(id, 100))) {
            lines.push_back(line.action + " " + line.status_from.value_or("") + ">" + line.status_to.value_or(""));
        }
        return lines;
    }

    std::unique_ptr<DeadLetters> letters_;
};

class LaneLettersConformance : public LettersFixture {
protected:
    void SetUp() override {
        LettersFixture::SetUp();
        memories_ = store_->database().memory_outbox("notes");
        orders_ = store_->database().orders_outbox({}, "broker");
        lease_ = store_->client_lease();
    }
    std::int64_t enqueue(const std::string& payload = "# text") {
        return must(lease_->enqueue_memory("space", payload, std::nullopt));
    }
    static bool settle_first(RowQueue& outbox, SettleKind kind, const std::string& error = "HTTP_500: no") {
        const ClaimBatch batch = must(outbox.claim({"w", 1, std::chrono::seconds(60), std::nullopt}));
        if (batch.rows.empty()) {
            ADD_FAILURE() << "nothing to claim";
            return false;
        }
        Settlement settlement{batch.rows[0].message.id, kind, batch.rows[0].message.failures};
        settlement.error = error;
        settlement.code = error.substr(0, error.find(':'));
        return must(outbox.settle("w", std::span(&settlement, 1))).at(0).applied;
    }
    Letter dead_memory() {
        enqueue();
        EXPECT_TRUE(settle_first(*memories_, SettleKind::dead));
        return only_letter("notes");
    }
    void accept_order() {
        const NewOrder order{"key-1", R"({"symbol":"AB"})", "sha256:a", "trace", "ops"};
        must(store_->database().orders({})->accept(std::span(&order, 1)));
    }

    std::unique_ptr<RowQueue> memories_;
    std::unique_ptr<RowQueue> orders_;
    std::unique_ptr<Lease> lease_;
};

TEST_P(LaneLettersConformance, AMemoryThatIsGivenUpLeavesALetter) {
    const std::int64_t id = enqueue("# grüße \"x\"");
    ASSERT_TRUE(settle_first(*memories_, SettleKind::dead, "HTTP_422: no such space"));
    const Letter letter = only_letter("notes");
    EXPECT_EQ(letter.status, LetterStatus::pending);
    EXPECT_EQ(letter.source, "lane:notes");
    EXPECT_EQ(letter.retry_count, 0);
    EXPECT_EQ(letter.max_retries, 3);
    EXPECT_EQ(letter.provenance.original_topic, "notes");
    EXPECT_EQ(letter.provenance.error_message, "HTTP_422: no such space");
    EXPECT_EQ(letter.provenance.error_class, "HTTP_422");
    EXPECT_EQ(letter.provenance.producer, "w");
    EXPECT_EQ(letter.payload, R"("# grüße \"x\"")");
    EXPECT_FALSE(letter.topic);
    ASSERT_TRUE(letter.lane_row);
    EXPECT_EQ(letter.lane_row->lane, "notes");
    EXPECT_EQ(letter.lane_row->outbox, "memory");
    EXPECT_EQ(letter.lane_row->row_id, std::to_string(id));
    const Record record = detail(letter.id).record;
    EXPECT_EQ(record.key, "space");
    EXPECT_EQ(record.value, "# grüße \"x\"");
    EXPECT_TRUE(record.headers.empty());
}

TEST_P(LaneLettersConformance, OnlyWhatIsGivenUpLeavesALetter) {
    enqueue();
    ASSERT_TRUE(settle_first(*memories_, SettleKind::retry));
    EXPECT_TRUE(of_topic("notes").empty());
    ASSERT_TRUE(settle_first(*memories_, SettleKind::sent));
    enqueue();
    must(memories_->claim({"w", 1, std::chrono::seconds(60), std::nullopt}));
    const Settlement stale{2, SettleKind::dead, 5};
    EXPECT_FALSE(must(memories_->settle("w", std::span(&stale, 1))).at(0).applied);
    const Settlement others{2, SettleKind::dead, 0};
    EXPECT_FALSE(must(memories_->settle("v", std::span(&others, 1))).at(0).applied);
    EXPECT_TRUE(of_topic("notes").empty());
    EXPECT_TRUE(must(letters_->topics()).empty());
}

TEST_P(LaneLettersConformance, AMemoryGoesBackIntoItsLane) {
    const Letter dead = dead_memory();
    EXPECT_TRUE(must(memories_->claim({"w", 1, std::chrono::seconds(60), std::nullopt})).rows.empty());
    ASSERT_EQ(begin(dead.id).verdict, RetryVerdict::begun);
    EXPECT_EQ(give_back(dead.id), "");
    const Letter back = letter(dead.id);
    EXPECT_EQ(back.status, LetterStatus::resolved);
    EXPECT_EQ(back.retry_count, 1);
    EXPECT_THAT(trail(dead.id), ::testing::ElementsAre("retry_begun PENDING>RETRYING", "returned RETRYING>RESOLVED"));
    const ClaimBatch batch = must(memories_->claim({"w", 1, std::chrono::seconds(60), std::nullopt}));
    ASSERT_EQ(batch.rows.size(), 1U);
    EXPECT_EQ(batch.rows[0].message.failures, 0);
    EXPECT_EQ(give_back(dead.id).empty(), false) << "once";
}

TEST_P(LaneLettersConformance, ARowThatDiesAgainKeepsItsLetter) {
    const Letter dead = dead_memory();
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    ASSERT_TRUE(settle_first(*memories_, SettleKind::dead, "HTTP_410: gone"));
    const Letter again = only_letter("notes");
    EXPECT_EQ(again.id, dead.id);
    EXPECT_EQ(again.status, LetterStatus::pending);
    EXPECT_EQ(again.retry_count, 1) << "retries are counted over all its deaths";
    EXPECT_EQ(again.provenance.error_message, "HTTP_410: gone");
    EXPECT_EQ(again.provenance.error_class, "HTTP_410");
    const auto topics = must(letters_->topics());
    ASSERT_EQ(topics.size(), 1U);
    EXPECT_EQ(topics[0].topic, "notes");
    EXPECT_EQ(topics[0].source, "lane:notes");
    EXPECT_EQ(topics[0].pending, 1);
    EXPECT_EQ(topics[0].resolved, 0);
    EXPECT_EQ(begin(dead.id).verdict, RetryVerdict::begun);
}

TEST_P(LaneLettersConformance, ARowThatDiesAfterTheLastRetryLeavesADeadLetter) {
    const Letter dead = dead_memory();
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    exhaust(dead.id);
    ASSERT_TRUE(settle_first(*memories_, SettleKind::dead, "HTTP_410: gone"));
    EXPECT_EQ(letter(dead.id).status, LetterStatus::dead);
    EXPECT_FALSE(letter(dead.id).in_doubt) << "how it ended is known now";
    EXPECT_EQ(begin(dead.id).verdict, RetryVerdict::finished);
}

TEST_P(LaneLettersConformance, ARowThatAWorkerWithoutALaneGivesUpBehavesAlike) {
    const auto stores = must(store_->database().lease("cli:ann"));
    for (Lease* lease : {lease_.get(), stores.get()}) {
        const std::int64_t id = enqueue();
        must(lease->claim_outbox("w", 1, 60));
        ASSERT_TRUE(must(lease->mark_dead_by_worker(id, "w", "no")));
        const std::string letter_id = of_topic("memory").front().id;
        begin(letter_id);
        ASSERT_EQ(give_back(letter_id), "");
        exhaust(letter_id);
        must(lease->claim_outbox("w", 1, 60));
        ASSERT_TRUE(must(lease->mark_dead_by_worker(id, "w", "no")));
        EXPECT_EQ(letter(letter_id).status, LetterStatus::dead);
        EXPECT_FALSE(letter(letter_id).in_doubt);
    }
}

TEST_P(LaneLettersConformance, AWorkerWithoutALaneLeavesALetterToo) {
    const std::int64_t id = enqueue();
    must(lease_->claim_outbox("w", 1, 60));
    EXPECT_FALSE(must(lease_->mark_dead_by_worker(id, "v", "mine now")));
    EXPECT_TRUE(of_topic("memory").empty());
    ASSERT_TRUE(must(lease_->mark_dead_by_worker(id, "w", "I cannot: no reason")));
    const Letter letter = only_letter("memory");
    EXPECT_EQ(letter.status, LetterStatus::pending);
    EXPECT_EQ(letter.source, "lane:memory");
    EXPECT_EQ(letter.provenance.error_message, "I cannot: no reason");
    EXPECT_FALSE(letter.provenance.error_class) << "words are no class";
    EXPECT_EQ(letter.provenance.producer, "w");
    begin(letter.id);
    EXPECT_EQ(give_back(letter.id), "");
    EXPECT_EQ(must(lease_->show(id))->status, "pending");
    EXPECT_EQ(must(lease_->claim_outbox("w", 1, 60)).size(), 1U);

    const auto stores = must(store_->database().lease("cli:ann"));
    EXPECT_TRUE(must(stores->mark_dead_by_worker(id, "w", "X1: again")));
    EXPECT_EQ(only_letter("memory").provenance.error_class, "X1");
}

TEST_P(LaneLettersConformance, AnOrderThatIsGivenUpIsNotSentAgain) {
    accept_order();
    ASSERT_TRUE(settle_first(*orders_, SettleKind::dead, "BROKER_4XX: margin"));
    const Letter letter = only_letter("broker");
    EXPECT_EQ(letter.status, LetterStatus::dead);
    EXPECT_EQ(letter.source, "lane:broker");
    EXPECT_EQ(letter.provenance.error_message, "BROKER_4XX: margin");
    EXPECT_EQ(letter.provenance.error_class, "BROKER_4XX");
    EXPECT_EQ(letter.provenance.producer, "w");
    ASSERT_TRUE(letter.payload);
    EXPECT_NE(letter.payload->find("symbol"), std::string::npos);
    ASSERT_TRUE(letter.lane_row);
    EXPECT_EQ(letter.lane_row->outbox, "orders");
    EXPECT_EQ(detail(letter.id).record.key, "key-1");
    const RetryClaim claim = begin(letter.id);
    EXPECT_EQ(claim.verdict, RetryVerdict::refused);
    EXPECT_NE(claim.reason.find("order"), std::string::npos) << claim.reason;
    EXPECT_NE(give_back(letter.id), "");
    EXPECT_EQ(store_->value("select status from outbox_orders"), "dead");
    EXPECT_EQ(this->letter(letter.id).retry_count, 0);
    must(letters_->revive(letter.id, "ann"));
    EXPECT_EQ(this->letter(letter.id).status, LetterStatus::dead);
}

TEST_P(LaneLettersConformance, OnlyTheOwnerGivesARowBack) {
    const Letter dead = dead_memory();
    EXPECT_NE(give_back(dead.id), "") << "no retry has begun";
    begin(dead.id, "o");
    EXPECT_NE(give_back(dead.id, "p"), "");
    EXPECT_EQ(letter(dead.id).status, LetterStatus::retrying);
    EXPECT_EQ(store_->value("select status from outbox_memory"), "dead");
    age_retries();
    ASSERT_EQ(begin(dead.id, "p").verdict, RetryVerdict::begun) << "the lease has run out";
    EXPECT_NE(give_back(dead.id, "o"), "");
    EXPECT_EQ(give_back(dead.id, "p"), "");
    EXPECT_EQ(store_->value("select status from outbox_memory"), "pending");
}

TEST_P(LaneLettersConformance, ARowThatIsGoneIsAFailedRetry) {
    const Letter dead = dead_memory();
    store_->execute("delete from outbox_memory");
    for (int tries = 1; tries <= 3; ++tries) {
        ASSERT_EQ(begin(dead.id).verdict, RetryVerdict::begun);
        const std::string why = give_back(dead.id);
        EXPECT_NE(why, "");
        EXPECT_EQ(letter(dead.id).last_retry_error, why);
        EXPECT_EQ(letter(dead.id).retry_count, tries);
        EXPECT_EQ(letter(dead.id).status, tries < 3 ? LetterStatus::retrying : LetterStatus::dead);
    }
    EXPECT_EQ(begin(dead.id).verdict, RetryVerdict::finished);
    EXPECT_EQ(must(letters_->return_to_lane("o", "ann", {})).size(), 0U);
}

TEST_P(LaneLettersConformance, AMemoryWithTheRowIdOfAnotherHasALetterOfItsOwn) {
    const Letter first = dead_memory();
    const std::string other =
        "insert into outbox_memory (outbox_id, target_space, payload_md, payload_sha) values (1, 'space', 'other', "
        "'x')";
    store_->execute("delete from outbox_memory");
    store_->execute(other);
    ASSERT_TRUE(settle_first(*memories_, SettleKind::dead));
    EXPECT_EQ(of_topic("notes").size(), 2U);
    EXPECT_EQ(detail(first.id).record.value, "# text");
    EXPECT_EQ(letter(first.id).status, LetterStatus::pending);
    EXPECT_EQ(begin(first.id).verdict, RetryVerdict::refused);

    store_->execute("delete from outbox_memory");
    store_->execute(other);
    must(lease_->claim_outbox("w", 1, 60));
    ASSERT_TRUE(must(lease_->mark_dead_by_worker(1, "w", "no")));
    store_->execute("update outbox_memory set payload_md = 'a third', status = 'pending'");
    must(lease_->claim_outbox("w", 1, 60));
    ASSERT_TRUE(must(lease_->mark_dead_by_worker(1, "w", "no")));
    EXPECT_EQ(of_topic("memory").size(), 2U) << "the same of a worker by itself";
}

TEST_P(LaneLettersConformance, OfTwentyRetriesAtOnceOneBegins) {
    const std::string id = dead_memory().id;
    constexpr int kCallers = 20;
    const auto other = store_->open_again();
    const auto other_letters = other->dead_letters();
    std::vector<RetryVerdict> verdicts(kCallers, RetryVerdict::unknown);
    std::latch start(kCallers);
    std::vector<std::jthread> threads;
    for (int n = 0; n < kCallers; ++n) {
        threads.emplace_back([&, n] {
            DeadLetters& letters = n % 2 == 0 ? *letters_ : *other_letters;
            start.arrive_and_wait();
            verdicts[static_cast<std::size_t>(n)] =
                must(letters.begin_retry(std::span(&id, 1), request("o" + std::to_string(n)))).at(0).verdict;
        });
    }
    threads.clear();
    EXPECT_EQ(std::ranges::count(verdicts, RetryVerdict::begun), 1);
    EXPECT_EQ(std::ranges::count(verdicts, RetryVerdict::under_way), kCallers - 1);
    EXPECT_EQ(letter(id).retry_count, 1);
    EXPECT_EQ(trail(id).size(), 1U);
}

}  // namespace deliverd::store::conformance
