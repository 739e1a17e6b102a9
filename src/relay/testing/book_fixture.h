// An OrderBook, driven by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "relay/order_book.h"

namespace deliverd::relay {

/// A book for which the test itself writes what polls bring and how sends end. Aggregate "other" is in shard 1, all
/// others are in shard 0; events of shard 1 have ids from 100.
class OrderBookTest : public ::testing::Test {
protected:
    static store::EventRow row(std::int64_t id, const std::string& aggregate,
                               store::EventOrigin origin = store::EventOrigin::forward, std::int32_t failures = 0) {
        store::EventRow row;
        row.row_id = std::to_string(id);
        row.sequence = id;
        row.shard = aggregate == "other" ? 1 : 0;
        row.origin = origin;
        row.message.id = id;
        row.message.key = aggregate;
        row.message.body = "body";
        row.message.failures = failures;
        return row;
    }
    OrderBook::TakeResult take(store::EventRow event, bool trusted = true) {
        const store::ShardLease lease{event.shard, 7};
        return book_.take(event, lease, trusted);
    }
    /// A poll that brings these.
    void poll(std::vector<store::EventRow> rows) {
        follows_ = book_.begin_poll(10);
        for (store::EventRow& event : rows) take(std::move(event));
        book_.end_poll(true);
    }
    OrderBook::TakeResult take_in_a_poll(store::EventRow event) {
        (void)book_.begin_poll(10);
        const OrderBook::TakeResult result = take(std::move(event));
        book_.end_poll(true);
        return result;
    }
    /// Everything that may go now, now at the sink.
    std::vector<std::int64_t> send() {
        std::vector<std::int64_t> ids;
        while (Held* held = book_.send_next(Instant{})) {
            ids.push_back(held->row.message.id);
            at_sink_[ids.back()] = &held->row.message;
        }
        return ids;
    }
    Held& ended(std::int64_t id) { return *book_.at_sink(*at_sink_.at(id)); }
    void deliver(std::int64_t id) { book_.delivered(ended(id)); }
    void fail(std::int64_t id) { book_.failed(ended(id)); }
    void record(std::int64_t id, Recorded recorded) {
        Held* held = book_.settling(std::to_string(id), {id >= 100 ? 1 : 0, 7});
        ASSERT_NE(held, nullptr);
        book_.settled(*held, recorded);
    }
    std::vector<std::string> followed() {
        std::vector<std::string> names;
        for (const store::EventFollow& follow : follows_) {
            names.push_back(follow.aggregate_id + ">" + follow.after.value_or(""));
        }
        return names;
    }

    static constexpr Duration kMoment = std::chrono::milliseconds(1);
    OrderBook book_{{.of_one_aggregate = 4, .follow_page = 2, .gaps = 3, .aside = 1}};
    std::map<std::int64_t, const Message*> at_sink_;
    std::vector<store::EventFollow> follows_;
};

}  // namespace deliverd::relay
