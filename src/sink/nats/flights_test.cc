#include "sink/nats/flights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/nats/nats_connection.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

/// Publishes at moments of its own; what comes out is told by the messages' ids.
class FlightsTest : public testing::Test {
protected:
    std::uint64_t publish(std::int64_t id, const std::string& subject) {
        auto& message = messages_.emplace_back();
        message.id = id;
        message.topic = subject;
        return flights_.add({&message, nullptr}, now_ + 5s);
    }
    std::vector<std::int64_t> refuse(const std::string& subject) { return ids(flights_.take_refused(subject, now_)); }
    std::vector<std::int64_t> expire() { return ids(flights_.take_expired(now_)); }

    static std::vector<std::int64_t> ids(const std::vector<Flight>& flights) {
        std::vector<std::int64_t> out;
        for (const auto& flight : flights) out.push_back(flight.job.message->id);
        return out;
    }

    Flights flights_;
    Instant now_{};
    std::deque<Message> messages_;
};

TEST_F(FlightsTest, ARefusalMeansTheOnlyMessageToItsSubject) {
    publish(1, "s.a");
    publish(2, "s.b");
    EXPECT_THAT(refuse("s.c"), IsEmpty());
    EXPECT_THAT(refuse("s.a"), ElementsAre(1));
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    publish(3, "s.a");  // what was refused before says nothing about it
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(2, 3));
}

TEST_F(FlightsTest, MessagesToASubjectAreRefusedOnlyWhenEachHasARefusal) {
    for (int id = 1; id <= 3; ++id) publish(id, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    EXPECT_THAT(refuse("s.a"), ElementsAre(1, 2, 3));
    EXPECT_TRUE(flights_.empty());
}

TEST_F(FlightsTest, AnAnsweredOrUnclaimedMessageWasNotRefused) {
    const auto answered = publish(1, "s.a");
    flights_.find(publish(2, "s.a"))->unclaimed = true;
    publish(3, "s.a");
    ASSERT_TRUE(flights_.take(answered));
    EXPECT_THAT(refuse("s.a"), ElementsAre(3));
}

TEST_F(FlightsTest, ALateRefusalMayMeanAnExpiredMessage) {
    publish(1, "s.a");
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(1));
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());  // 1 or 2: nobody knows
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(2));
    publish(3, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    EXPECT_THAT(refuse("s.a"), ElementsAre(3));  // three of three
}

TEST_F(FlightsTest, LongExpiredMessagesAreForgottenWithTheirRefusals) {
    publish(1, "s.a");
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(1));
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    now_ += Flights::kRefusalComesWithin;
    publish(3, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());  // 2 or 3: the refusal before may have been about 1
    EXPECT_THAT(refuse("s.a"), ElementsAre(2, 3));
}

TEST_F(FlightsTest, WithTooManyExpiredMessagesRefusalsAreIgnoredForAWhile) {
    for (std::size_t i = 0; i <= Flights::kMaxUnanswered; ++i) publish(0, "s.other");
    now_ += 5s;
    EXPECT_EQ(expire().size(), Flights::kMaxUnanswered + 1);
    publish(1, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    now_ += Flights::kRefusalComesWithin;
    EXPECT_THAT(refuse("s.a"), ElementsAre(1));
}

TEST_F(FlightsTest, ALostConnectionEndsAllAndItsRefusals) {
    publish(1, "s.a");
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    EXPECT_THAT(ids(flights_.take_all()), ElementsAre(1, 2));
    publish(3, "s.a");
    publish(4, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
}

TEST_F(FlightsTest, OnlyWhatIsDueExpires) {
    EXPECT_EQ(flights_.next_deadline(), std::nullopt);
    publish(1, "s.a");
    now_ += 1s;
    publish(2, "s.a");
    EXPECT_EQ(flights_.next_deadline(), Instant{} + 5s);
    now_ += 4s;
    EXPECT_THAT(expire(), ElementsAre(1));
    EXPECT_EQ(flights_.next_deadline(), Instant{} + 6s);
    now_ += 1s;
    EXPECT_THAT(expire(), ElementsAre(2));
    EXPECT_TRUE(flights_.empty());
    EXPECT_THAT(expire(), IsEmpty());
}

TEST_F(FlightsTest, WhatIsNotUnderWayIsNotFound) {
    const auto id = publish(1, "s.a");
    EXPECT_EQ(flights_.find(id + 1), nullptr);
    EXPECT_FALSE(flights_.take(id + 1));
    EXPECT_TRUE(flights_.take(id));
    EXPECT_EQ(flights_.find(id), nullptr);
}

TEST_F(FlightsTest, BytesUnderWayAreCountedUntilTheirMessagesAreTakenOut) {
    const auto publish_large = [&] {
        const auto id = publish(1, "s.a");
        flights_.take(id);
        messages_.back().body = std::string(Flights::kMaxBytes, 'x');
        return flights_.add({&messages_.back(), nullptr}, now_ + 5s);
    };
    const auto large = publish_large();
    EXPECT_FALSE(flights_.has_room());
    flights_.take(large);
    EXPECT_TRUE(flights_.has_room());
    publish_large();
    flights_.take_all();
    EXPECT_TRUE(flights_.has_room());
    EXPECT_TRUE(flights_.empty());
    for (std::size_t i = 0; i < 3; ++i) {
        messages_.emplace_back().body = std::string(Flights::kMaxBytes / 2 - (i == 0 ? 1 : 0), 'x');
        EXPECT_TRUE(flights_.has_room()) << i;
        if (i < 2) flights_.add({&messages_.back(), nullptr}, now_ + 5s);
    }
}

TEST_F(FlightsTest, AnUnclaimedMessageCannotBeRefused) {
    flights_.find(publish(1, "s.a"))->unclaimed = true;
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(1));
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), ElementsAre(2));
}

TEST_F(FlightsTest, AnExpiredMessageIsForgottenInTime) {
    publish(1, "s.a");
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(1));
    now_ += Flights::kRefusalComesWithin;
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), ElementsAre(2));
}

TEST_F(FlightsTest, ExpiredOnesMakeRoomForOthersInTime) {
    for (std::size_t i = 0; i < Flights::kMaxUnanswered; ++i) publish(0, "s.other");
    now_ += 5s;
    EXPECT_EQ(expire().size(), Flights::kMaxUnanswered);
    now_ += Flights::kRefusalComesWithin;
    EXPECT_THAT(expire(), IsEmpty());
    publish(1, "s.other");
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(1));
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), ElementsAre(2)) << "the one that expired is kept: nothing is uncertain";
}

TEST_F(FlightsTest, RefusalsAreCountedFromZeroOnceTheyWereUsed) {
    publish(1, "s.a");
    now_ += 5s;
    EXPECT_THAT(expire(), ElementsAre(1));
    publish(2, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
    EXPECT_THAT(refuse("s.a"), ElementsAre(2));
    publish(3, "s.a");
    EXPECT_THAT(refuse("s.a"), ElementsAre(3)) << "1 had its refusal";
    publish(4, "s.a");
    publish(5, "s.a");
    EXPECT_THAT(refuse("s.a"), IsEmpty());
}

TEST_F(FlightsTest, AfterALostConnectionNothingIsExpectedFromIt) {
    for (std::size_t i = 0; i < Flights::kMaxUnanswered; ++i) publish(0, "s.a");
    publish(0, "s.a");
    now_ += 5s;
    expire();
    flights_.take_all();
    publish(1, "s.a");
    EXPECT_THAT(refuse("s.a"), ElementsAre(1));
}

TEST(RefusedSubject, IsReadFromTheServersWords) {
    EXPECT_EQ(refused_subject(R"(Permissions Violation for Publish to "s.a")"), "s.a");
    EXPECT_EQ(refused_subject(R"(nats: 'Permissions Violation for Publish to "s.a"b"')"), "s.a\"b");
    for (const auto* other : {"", "Authorization Violation", R"(Permissions Violation for Subscription to "s.a")",
                              R"(Permissions Violation for Publish with Reply of "_INBOX.x")",
                              R"(Permissions Violation for Publish to "cut off)"}) {
        EXPECT_EQ(refused_subject(other), "") << other;
    }
}

}  // namespace
}  // namespace deliverd::sink
