// A RelayCore that holds both shards. The test itself writes what polls bring.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "relay/testing/core_fixture.h"

namespace deliverd::relay {

class RelayCorePolls : public RelayCoreTest {
protected:
    static constexpr Duration kLong = std::chrono::hours(10);

    RelayCorePolls() { restart({}); }
    /// A core that holds both shards.
    void restart(RelayOptions options) {
        options.lease = kLong;
        make(std::move(options));
        both_ = table_.tend("r", kLong)->held;
        tend(both_, 2);
    }
    static RelayOptions small() {
        RelayOptions options;
        options.batch_size = 10;
        options.parallelism = 3;
        return options;
    }
    static store::EventBatch forward(std::int64_t first, std::int64_t last, const std::string& body = {}) {
        store::EventBatch batch;
        for (std::int64_t id = first; id <= last; ++id) {
            batch.rows.push_back(row(id, "a" + std::to_string(id), store::EventOrigin::forward));
            batch.rows.back().message.body = body;
        }
        return batch;
    }
    /// The next poll begins at the beginning, as if nothing was known of the table; what is in hand of shard 0 stays.
    void start_over() {
        tend(both_, 1);
        tend(both_, 2);
    }
    std::optional<store::EventRead> ask() {
        now_ += std::chrono::seconds(1);
        return core_->begin_poll(now_);
    }
    void end(store::EventBatch batch) { core_->end_poll(now_, now_, std::move(batch)); }

    /// The next poll that goes forward; pages of sweeps before it find nothing.
    store::EventRead ask_forward() {
        for (;;) {
            std::optional<store::EventRead> request = ask();
            EXPECT_TRUE(request);
            if (!request || !request->up_to) return request.value_or(store::EventRead{});
            store::EventBatch nothing;
            nothing.follow_cut = true;
            end(std::move(nothing));
        }
    }

    std::vector<store::ShardLease> both_;
};

}  // namespace deliverd::relay
