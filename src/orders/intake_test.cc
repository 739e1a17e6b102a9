#include "orders/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/testing/recording_log.h"

namespace deliverd::orders {
namespace {

using store::AcceptKind;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;

constexpr std::chrono::seconds kPatience{20};

/// Keeps orders in memory. accept() waits while the gate is shut; a key may be one the database cannot hold, or one
/// at which it goes away.
class FakeOrders final : public store::Orders {
public:
    Result<std::vector<store::AcceptAnswer>> accept(std::span<const store::NewOrder> orders) override {
        std::unique_lock lock(mutex_);
        groups_.push_back(orders.size());
        changed_.notify_all();
        EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return open_; }));
        for (const auto& order : orders) {
            if (order.idempotency_key.starts_with("bad")) return permanent("bad_order", "cannot be held");
            if (orders.size() == 1 && order.idempotency_key.starts_with("lost")) return ambiguous("db_lost", "gone");
        }
        if (failure_) return Failure(*failure_);
        std::vector<store::AcceptAnswer> answers;
        for (const auto& order : orders) answers.push_back(accept_one(order));
        if (forgets_one_) answers.pop_back();
        return answers;
    }
    Result<std::optional<store::OrderDetail>> find(std::string_view) override { return std::nullopt; }
    Result<std::vector<store::Order>> list(const store::OrderQuery&) override { return {}; }

    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void shut() {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }
    void fail_with(std::optional<Error> failure) {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(failure);
    }
    void forget_one() {
        const std::lock_guard lock(mutex_);
        forgets_one_ = true;
    }
    /// Waits until so many groups have come in.
    void await_groups(std::size_t count) {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return groups_.size() >= count; }));
    }
    std::vector<std::size_t> groups() {
        const std::lock_guard lock(mutex_);
        return groups_;
    }
    std::size_t stored() {
        const std::lock_guard lock(mutex_);
        return rows_.size();
    }

private:
    store::AcceptAnswer accept_one(const store::NewOrder& order) {
        store::Order row;
        row.idempotency_key = order.idempotency_key;
        row.request_digest = order.request_digest;
        row.id = static_cast<std::int64_t>(rows_.size()) + 1;
        const auto [found, fresh] = rows_.try_emplace(order.idempotency_key, row);
        if (fresh) return {AcceptKind::fresh, row};
        const bool same = found->second.request_digest == order.request_digest;
        return {same ? AcceptKind::known : AcceptKind::conflict, found->second};
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;
    bool forgets_one_ = false;
    std::optional<Error> failure_;
    std::vector<std::size_t> groups_;
    std::map<std::string, store::Order> rows_;
};

class IntakeTest : public testing::Test {
protected:
    using Answer = Result<store::AcceptAnswer>;

    std::future<Answer> submit(Intake& intake, const std::string& key, const std::string& digest = "d") {
        auto promise = std::make_shared<std::promise<Answer>>();
        auto future = promise->get_future();
        intake.submit({key, "{}", digest, "t", "me"},
                      [promise](Answer answer) { promise->set_value(std::move(answer)); });
        return future;
    }
    static Answer get(std::future<Answer>& future) {
        if (future.wait_for(kPatience) != std::future_status::ready) return permanent("test", "no answer");
        return future.get();
    }
    static std::string shown(std::future<Answer>& future) {
        const Answer answer = get(future);
        if (!answer) return std::string(to_string(answer.error().error_class)) + " " + answer.error().code;
        switch (answer->kind) {
            case AcceptKind::fresh:
                return "fresh " + answer->order.idempotency_key;
            case AcceptKind::known:
                return "known " + answer->order.idempotency_key;
            case AcceptKind::conflict:
                return "conflict " + answer->order.idempotency_key;
        }
        return "?";
    }

    /// One writer, kept busy by an order of its own until open(): what comes meanwhile is one group.
    std::future<Answer> occupy(Intake& intake) {
        orders_.shut();
        auto first = submit(intake, "first");
        orders_.await_groups(1);
        return first;
    }

    NullLog log_;
    FakeOrders orders_;
};

TEST_F(IntakeTest, WhoeverComesDuringACommitSharesTheNext) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log_);
    auto first = occupy(intake);
    std::vector<std::future<Answer>> more;
    for (int i = 0; i < 50; ++i) more.push_back(submit(intake, "k" + std::to_string(i)));
    orders_.open();
    EXPECT_EQ(shown(first), "fresh first");
    for (int i = 0; i < 50; ++i) EXPECT_EQ(shown(more[static_cast<std::size_t>(i)]), "fresh k" + std::to_string(i));
    EXPECT_THAT(orders_.groups(), ElementsAre(1, 50));
}

TEST_F(IntakeTest, AGroupHasALimit) {
    Intake intake({.writers = 1, .batch_size = 10, .max_waiting = 100}, orders_, log_);
    auto first = occupy(intake);
    std::vector<std::future<Answer>> more;
    for (int i = 0; i < 25; ++i) more.push_back(submit(intake, "k" + std::to_string(i)));
    orders_.open();
    for (auto& one : more) EXPECT_TRUE(get(one).has_value());
    EXPECT_THAT(orders_.groups(), ElementsAre(1, 10, 10, 5));
}

TEST_F(IntakeTest, WritersWorkAtOnce) {
    Intake intake({.writers = 3, .batch_size = 1, .max_waiting = 100}, orders_, log_);
    orders_.shut();
    std::vector<std::future<Answer>> all;
    for (int i = 0; i < 3; ++i) all.push_back(submit(intake, "k" + std::to_string(i)));
    orders_.await_groups(3);  // all three wait inside accept()
    orders_.open();
    for (auto& one : all) EXPECT_TRUE(get(one).has_value());
}

TEST_F(IntakeTest, OneKeyTwiceInAGroup) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log_);
    auto first = occupy(intake);
    auto a = submit(intake, "same", "d1");
    auto b = submit(intake, "same", "d1");
    auto c = submit(intake, "same", "d2");
    orders_.open();
    EXPECT_EQ(shown(a), "fresh same");
    EXPECT_EQ(shown(b), "known same");
    EXPECT_EQ(shown(c), "conflict same");
    EXPECT_THAT(orders_.groups(), ElementsAre(1, 3));
}

TEST_F(IntakeTest, ABadOrderFailsAlone) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log_);
    auto first = occupy(intake);
    auto a = submit(intake, "a");
    auto bad = submit(intake, "bad");
    auto b = submit(intake, "b");
    orders_.open();
    EXPECT_EQ(shown(a), "fresh a");
    EXPECT_EQ(shown(bad), "permanent bad_order");
    EXPECT_EQ(shown(b), "fresh b");
    EXPECT_THAT(orders_.groups(), ElementsAre(1, 3, 1, 1, 1));
}

TEST_F(IntakeTest, AGroupOfOneIsNotTriedTwiceAndAGroupOfTwoIs) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log_);
    auto alone = submit(intake, "bad");
    EXPECT_EQ(shown(alone), "permanent bad_order");
    EXPECT_THAT(orders_.groups(), ElementsAre(1));
    orders_.shut();
    auto first = submit(intake, "first");
    orders_.await_groups(2);
    auto bad = submit(intake, "bad");
    auto good = submit(intake, "good");
    orders_.open();
    EXPECT_EQ(shown(bad), "permanent bad_order");
    EXPECT_EQ(shown(good), "fresh good");
    EXPECT_THAT(orders_.groups(), ElementsAre(1, 1, 2, 1, 1));
}

TEST_F(IntakeTest, ReportsWhatTheDatabaseAnsweredForEachOrder) {
    std::vector<AcceptKind> kinds;  // written by the only writer before it gives the answers
    Intake intake({.writers = 1,
                   .batch_size = 64,
                   .max_waiting = 100,
                   .on_stored = [&](AcceptKind kind) { kinds.push_back(kind); }},
                  orders_, log_);
    for (const char* digest : {"d1", "d1", "d2"}) {
        auto order = submit(intake, "same", digest);
        EXPECT_TRUE(get(order).has_value());
    }
    orders_.fail_with(Error{ErrorClass::retryable, "db_away", "not there"});
    auto failed = submit(intake, "other");
    EXPECT_FALSE(get(failed).has_value());
    EXPECT_THAT(kinds, ElementsAre(AcceptKind::fresh, AcceptKind::known, AcceptKind::conflict));
}

TEST_F(IntakeTest, AnOutageIsLoggedOnceAndSoIsItsEnd) {
    RecordingLog log;
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log);
    const auto post = [&](const std::string& key) {
        auto order = submit(intake, key);
        return get(order).has_value();
    };
    EXPECT_TRUE(post("a"));
    EXPECT_THAT(log.events(), IsEmpty());
    for (int outage = 0; outage < 2; ++outage) {
        orders_.fail_with(Error{ErrorClass::retryable, "db_away", "not there"});
        EXPECT_FALSE(post("b"));
        EXPECT_FALSE(post("c"));
        orders_.fail_with(std::nullopt);
        EXPECT_TRUE(post("d"));
        EXPECT_TRUE(post("e"));
    }
    EXPECT_THAT(log.events(), ElementsAre("orders could not be stored", "orders are stored again",
                                          "orders could not be stored", "orders are stored again"));
}

TEST_F(IntakeTest, ADatabaseThatGoesAwayDuringTheSingleTriesIsNotAskedFurther) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log_);
    auto first = occupy(intake);
    auto bad = submit(intake, "bad");
    auto lost = submit(intake, "lost");
    auto after = submit(intake, "after");
    orders_.open();
    EXPECT_EQ(shown(bad), "permanent bad_order");
    EXPECT_EQ(shown(lost), "ambiguous db_lost");
    EXPECT_EQ(shown(after), "retryable db_lost");  // it was not tried: nothing of it is stored
    EXPECT_EQ(orders_.stored(), 1U);
    EXPECT_THAT(orders_.groups(), ElementsAre(1, 3, 1, 1));
}

TEST_F(IntakeTest, AnOutageIsToldToEveryoneInTheGroup) {
    for (const auto error_class : {ErrorClass::retryable, ErrorClass::ambiguous}) {
        FakeOrders orders;
        Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders, log_);
        orders.shut();
        auto first = submit(intake, "first");
        orders.await_groups(1);
        auto a = submit(intake, "a");
        auto b = submit(intake, "b");
        orders.fail_with(Error{error_class, "db_away", "not there"});
        orders.open();
        const std::string expected = std::string(to_string(error_class)) + " db_away";
        EXPECT_EQ(shown(first), expected);
        EXPECT_EQ(shown(a), expected);
        EXPECT_EQ(shown(b), expected);
        EXPECT_THAT(orders.groups(), ElementsAre(1, 2)) << "nobody is tried alone";
        orders.fail_with(std::nullopt);
        auto again = submit(intake, "a");
        EXPECT_EQ(shown(again), "fresh a");
    }
}

TEST_F(IntakeTest, AnAnswerThatIsShortIsNobodysSuccess) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 100}, orders_, log_);
    auto first = occupy(intake);
    orders_.forget_one();
    auto a = submit(intake, "a");
    auto b = submit(intake, "b");
    orders_.open();
    EXPECT_EQ(shown(a), "ambiguous wrong_answer");
    EXPECT_EQ(shown(b), "ambiguous wrong_answer");
}

TEST_F(IntakeTest, RefusesAtOnceWhenTooManyWait) {
    Intake intake({.writers = 1, .batch_size = 64, .max_waiting = 2}, orders_, log_);
    auto first = occupy(intake);
    auto a = submit(intake, "a");
    auto b = submit(intake, "b");
    auto c = submit(intake, "c");
    const Answer refused = get(c);  // while the others still wait
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "overloaded");
    EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(refused.error().message, HasSubstr("2 orders are already waiting"));
    orders_.open();
    EXPECT_EQ(shown(a), "fresh a");
    EXPECT_EQ(shown(b), "fresh b");
    EXPECT_EQ(orders_.stored(), 3U);
}

TEST_F(IntakeTest, StopStoresWhatWaits) {
    Intake intake({.writers = 1, .batch_size = 4, .max_waiting = 1'000'000}, orders_, log_);
    auto first = occupy(intake);
    std::vector<std::future<Answer>> more;
    for (int i = 0; i < 10; ++i) more.push_back(submit(intake, "k" + std::to_string(i)));
    std::thread stopper([&] { intake.stop(); });
    // While the writer is kept busy only a refusal is answered: it shows that the stop has begun.
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::future<Answer> late = submit(intake, "late");
    while (late.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        more.push_back(std::move(late));
        late = submit(intake, "k" + std::to_string(more.size()));
    }
    EXPECT_EQ(shown(late), "retryable overloaded");
    orders_.open();
    stopper.join();
    for (auto& one : more) {
        ASSERT_EQ(one.wait_for(std::chrono::seconds(0)), std::future_status::ready);
        EXPECT_TRUE(one.get().has_value());
    }
    const std::size_t stored = orders_.stored();
    intake.stop();
    auto later = submit(intake, "later");
    EXPECT_EQ(shown(later), "retryable overloaded");
    EXPECT_EQ(orders_.stored(), stored);
}

TEST_F(IntakeTest, StopStoresTheLastOneThatWaits) {
    Intake intake({.writers = 1, .batch_size = 4, .max_waiting = 1}, orders_, log_);
    auto first = occupy(intake);
    auto last = submit(intake, "last");
    std::thread stopper([&] { intake.stop(); });
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::string why;  // no room at first, then the stop
    while (why.find("stopping") == std::string::npos) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << why;
        auto late = submit(intake, "late");
        why = get(late).error().message;
        std::this_thread::yield();
    }
    orders_.open();
    stopper.join();
    EXPECT_EQ(shown(last), "fresh last");
}

TEST_F(IntakeTest, ManyThreadsEachGetTheirOwnAnswer) {
    Intake intake({.writers = 2, .batch_size = 8, .max_waiting = 4096}, orders_, log_);
    std::vector<std::thread> people;
    std::atomic<int> fresh = 0;
    std::atomic<int> known = 0;
    for (int person = 0; person < 8; ++person) {
        people.emplace_back([&] {
            for (int i = 0; i < 100; ++i) {
                auto future = submit(intake, "k" + std::to_string(i));
                const Answer answer = get(future);
                ASSERT_TRUE(answer.has_value());
                EXPECT_EQ(answer->order.idempotency_key, "k" + std::to_string(i));
                ++(answer->kind == AcceptKind::fresh ? fresh : known);
            }
        });
    }
    for (auto& person : people) person.join();
    EXPECT_EQ(fresh, 100);
    EXPECT_EQ(known, 700);
    EXPECT_THAT(orders_.groups(), Each(Le(8U)));
}

}  // namespace
}  // namespace deliverd::orders
