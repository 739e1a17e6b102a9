#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>

#include "base/text.h"
#include "demo/demo_receiver.h"
#include "demo/demo_view.h"

namespace deliverd::demo {
namespace {

using testing::HasSubstr;
using testing::Not;

DemoState some_state() {
    DemoState state;
    state.memories.enqueued = 10;
    state.memories.counts = {2, 7, 1};
    state.receiver.memories.distinct = 7;
    state.orders.enqueued = 5;
    state.orders.counts = {1, 4, 0};
    state.receiver.orders.distinct = 4;
    state.events.enqueued = 9;
    state.events.counts = {2, 6, 1};
    state.receiver.events.distinct = 6;
    state.letters = {.pending = 1, .resolved = 3, .dead = 2, .sent_back = 4};
    state.api_address = "http://127.0.0.1:8080";
    state.last_failures = {"memory-3 BROKER_5XX: 500"};
    return state;
}

TEST(DemoView, ColourOnlyWhereItIsWanted) {
    EXPECT_THAT(render_frame(some_state(), false, {}), Not(HasSubstr("\x1b")));
    EXPECT_THAT(render_frame(some_state(), true, {}), HasSubstr("\x1b[32m"));
    EXPECT_THAT(render_frame(some_state(), false, {}), HasSubstr("http://127.0.0.1:8080/metrics"));
    EXPECT_THAT(render_frame(some_state(), false, {}), HasSubstr("memory-3 BROKER_5XX"));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::size_t characters(const std::string& line) {
    return static_cast<std::size_t>(
        std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

TEST(DemoView, ALaneShowsWhatBecameOfItsMessages) {
    const std::string frame = render_frame(some_state(), false, {});
    EXPECT_THAT(frame, HasSubstr("\n  memories      10   sent 7       open 2     dead 1 "));
    EXPECT_THAT(frame, HasSubstr("\n  events         9   sent 6       open 2     dead 1 "));
    // Forty cells: seven tenths sent, two open, one dead.
    std::string bar;
    for (int i = 0; i < 28; ++i) bar += "█";
    for (int i = 0; i < 8; ++i) bar += "▒";
    for (int i = 0; i < 4; ++i) bar += "▓";
    EXPECT_THAT(frame, HasSubstr(bar + "\n"));
}

TEST(DemoView, DeadLettersAreShown) {
    EXPECT_THAT(render_frame(some_state(), false, {}),
                HasSubstr("dead letters  1 pending, 3 back in their lanes, 2 final\n"));
    EXPECT_THAT(render_line(some_state()), HasSubstr("dead letters sent back 4"));
    EXPECT_THAT(render_totals(some_state()), HasSubstr("dead letters: 1 pending, 3 back in their lanes, 2 final"));
}

TEST(DemoView, EventsOutOfOrderAreSaid) {
    DemoState state = some_state();
    EXPECT_THAT(render_totals(state), HasSubstr("its events came first as written"));
    state.receiver.out_of_order = 2;
    EXPECT_THAT(render_totals(state), HasSubstr("WRONG: 2 events came before an earlier one"));
}

TEST(DemoView, AFrameFitsItsScreen) {
    DemoState state = some_state();
    state.last_failures.assign(5, std::string(200, 'x'));
    for (const ScreenSize screen : {ScreenSize{200, 50}, {80, 24}, {60, 15}, {40, 12}, {20, 5}, {1, 1}}) {
        const auto lines = lines_of(render_frame(state, false, screen));
        EXPECT_LE(lines.size(), screen.rows);
        for (const std::string& line : lines) {
            EXPECT_LT(characters(line), std::max<std::size_t>(screen.columns, 2)) << line;
            EXPECT_FALSE(find_invalid_utf8(line)) << line;
        }
    }
    EXPECT_EQ(lines_of(render_frame(state, false, {80, 24})).size(), 20U);
    EXPECT_THAT(render_frame(state, false, {60, 16}), HasSubstr("last failures\n  xx"));
    EXPECT_THAT(render_frame(state, false, {60, 15}), Not(HasSubstr("last failures")));
}

TEST(DemoView, ACutLineEndsItsColour) {
    const std::string cut = render_frame(some_state(), true, {25, 24});
    for (const std::string& line : lines_of(cut)) {
        if (line.find('\x1b') != std::string::npos) {
            EXPECT_THAT(line.substr(line.rfind('\x1b')), testing::StartsWith("\x1b[0m")) << line;
        }
    }
}

TEST(DemoView, TheReceiversLineFitsEightyColumns) {
    DemoState state = some_state();
    state.receiver = {.calls = 9999,
                      .memories = {8000, 0},
                      .orders = {999, 0},
                      .events = {},
                      .out_of_order = 0,
                      .failed = 999,
                      .limited = 999,
                      .late = 999,
                      .refused = 999};
    EXPECT_THAT(render_frame(state, false, {80, 24}), HasSubstr("999 late\n"));
}

TEST(DemoView, TheLastLineIsTheTotalsAsJson) {
    const std::string text = render_totals(some_state());
    EXPECT_THAT(text, HasSubstr("memories: enqueued 10 = sent 7 + dead 1 + open 2\n"));
    EXPECT_THAT(text, HasSubstr("orders: enqueued 5 = sent 4 + dead 0 + open 1\n"));
    const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
    EXPECT_EQ(boost::json::parse(last),
              boost::json::parse(R"({"lanes":{"memories":{"enqueued":10,"sent":7,"dead":1,"open":2},
                                               "orders":{"enqueued":5,"sent":4,"dead":0,"open":1},
                                               "events":{"enqueued":9,"sent":6,"dead":1,"open":2}},
                                      "dead_letters":{"pending":1,"resolved":3,"dead":2,"sent_back":4}})"));
}

TEST(DemoView, TotalsThatDoNotAddUpAreSaid) {
    DemoState state = some_state();
    state.memories.enqueued = 11;
    EXPECT_THAT(render_totals(state), HasSubstr("WRONG: the table holds 10"));
}

TEST(DemoView, TheReceiversCountIsHeldAgainstTheTable) {
    DemoState state = some_state();
    EXPECT_THAT(render_totals(state), HasSubstr("the receiver took 7 different memories; "));
    state.receiver.memories.distinct = 8;
    EXPECT_THAT(render_totals(state), HasSubstr("8 different memories, 1 of them still open"));
    state.receiver.memories.distinct = 6;
    EXPECT_THAT(render_totals(state), HasSubstr("WRONG: 1 sent ones never arrived"));
    state.memories.totals.duplicates = 1;
    EXPECT_THAT(render_totals(state), Not(HasSubstr("WRONG")));
    state.receiver.orders.distinct = 3;
    EXPECT_THAT(render_totals(state), HasSubstr("3 different orders   WRONG: 1 sent ones never arrived"));
}

TEST(DemoReceiver, MisbehavesAsOftenAsItShould) {
    ReceiverFaults faults;
    faults.lateness = Duration::zero();
    const auto receiver = DemoReceiver::start(faults, 1);
    ASSERT_TRUE(receiver.has_value()) << receiver.error().message;
    for (int i = 1; i <= 4000; ++i) {
        const http::Response response = (*receiver)->answer(ReceiverDoor::memories, "memory-" + std::to_string(i));
        if (i % faults.refuses_every == 0) {
            EXPECT_EQ(response.status, 400);
        }
        if (response.status == 429) {
            EXPECT_EQ(response.headers.front().first, "Retry-After");
        }
    }
    const ReceiverCounts counts = (*receiver)->counts();
    EXPECT_EQ(counts.calls, 4000U);
    EXPECT_EQ(counts.refused, 100U);
    EXPECT_NEAR(static_cast<double>(counts.failed), 390, 80);
    EXPECT_GT(counts.limited, 0U);
    EXPECT_GT(counts.late, 0U);
    EXPECT_EQ(counts.memories.distinct, counts.calls - counts.refused - counts.failed - counts.limited);
    EXPECT_EQ(counts.memories.duplicates, 0U);
}

TEST(DemoReceiver, ATakenKeyThatComesAgainIsADuplicate) {
    const auto receiver = DemoReceiver::start({0, 0, 0, 1000, Duration::zero()}, 1);
    ASSERT_TRUE(receiver.has_value());
    EXPECT_EQ((*receiver)->answer(ReceiverDoor::memories, "memory-7").body, R"({"memory_id":"m-7"})");
    EXPECT_EQ((*receiver)->answer(ReceiverDoor::memories, "memory-7").status, 200);
    EXPECT_EQ((*receiver)->counts().memories.distinct, 1U);
    EXPECT_EQ((*receiver)->counts().memories.duplicates, 1U);
}

TEST(DemoReceiver, SeesAnEventThatComesBeforeAnEarlierOne) {
    const auto receiver = DemoReceiver::start({0, 0, 0, 1000, Duration::zero()}, 1);
    ASSERT_TRUE(receiver.has_value());
    const auto arrives = [&](std::string_view id, std::string_view aggregate, std::string_view type) {
        return (*receiver)->answer(ReceiverDoor::events, id, {aggregate, type}).status;
    };
    EXPECT_EQ(arrives("a-1", "order-1", "OrderCreated"), 204);
    EXPECT_EQ(arrives("a-2", "order-1", "OrderShipped"), 204);  // what is dead in between may be left out
    EXPECT_EQ(arrives("a-1", "order-1", "OrderCreated"), 204);  // came before: a duplicate, not out of order
    EXPECT_EQ((*receiver)->counts().out_of_order, 0U);
    EXPECT_EQ((*receiver)->counts().events.duplicates, 1U);
    EXPECT_EQ(arrives("b-1", "order-2", "OrderPaid"), 204);
    EXPECT_EQ(arrives("b-2", "order-2", "OrderCreated"), 204);
    EXPECT_EQ((*receiver)->counts().out_of_order, 1U);
}

TEST(DemoReceiver, TakesWhatItRefusedWhenItIsSentBack) {
    const auto receiver = DemoReceiver::start({0, 0, 0, 2, Duration::zero()}, 1);
    ASSERT_TRUE(receiver.has_value());
    const auto arrives = [&](std::string_view id, std::string_view type) {
        return (*receiver)->answer(ReceiverDoor::events, id, {"order-1", type}).status;
    };
    EXPECT_EQ(arrives("a-2", "OrderCreated"), 400);
    EXPECT_EQ(arrives("a-3", "OrderPaid"), 204);
    EXPECT_EQ(arrives("a-2", "OrderCreated"), 204);
    EXPECT_EQ((*receiver)->counts().refused, 1U);
    EXPECT_EQ((*receiver)->counts().events.distinct, 2U);
    EXPECT_EQ((*receiver)->counts().out_of_order, 0U) << "it is known to be late";
}

TEST(DemoReceiver, ABrokerGivesTheKeyBackAndKnowsItAgain) {
    const auto receiver = DemoReceiver::start({0, 0, 0, 1000, Duration::zero()}, 1);
    ASSERT_TRUE(receiver.has_value());
    const http::Response first = (*receiver)->answer(ReceiverDoor::orders, "demo-order-000007");
    EXPECT_EQ(first.status, 200);
    EXPECT_THAT(first.body, HasSubstr("\"idempotency_key\":\"demo-order-000007\""));
    const http::Response second = (*receiver)->answer(ReceiverDoor::orders, "demo-order-000007");
    EXPECT_EQ(second.status, 409);
    EXPECT_THAT(second.body, HasSubstr("already_processed"));
    EXPECT_EQ((*receiver)->counts().orders.distinct, 1U);
    EXPECT_EQ((*receiver)->counts().orders.duplicates, 1U);
}

}  // namespace
}  // namespace deliverd::demo
