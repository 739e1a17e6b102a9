// How many rows a relay reads per event while other transactions stay open: what it costs to watch
// transactions (src/relay/poll_planner.h, docs/benchmarks.md). Time is simulated: the numbers are the same on every
// machine.
//
//     build/deliverd_relay_reread
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>

#include "relay_world.h"

namespace deliverd::simulation {

namespace {

constexpr Duration kLength = std::chrono::seconds(30);
constexpr Duration kShortTransaction = std::chrono::milliseconds(1);
constexpr std::uint64_t kAggregates = 1'000;
constexpr std::uint64_t kSeeds = 1;
constexpr Duration kWarmUp = std::chrono::seconds(2);

struct Load {
    std::uint64_t open_writers = 0;  // at any time
    Duration open_for{};             // each of them
    std::uint64_t per_second = 0;    // events of short transactions
    std::uint64_t backlog = 0;       // events that wait when the relay starts
};

class Reread {
public:
    Reread(std::uint64_t seed, const Load& load) : world_(seed, RelayFaults{}), load_(load) {
        relay::RelayOptions options;
        options.worker_id = "relay";
        options.topic = *TopicTemplate::parse("t");
        world_.lease = options.lease;
        world_.usual_send = std::chrono::milliseconds(2);
        world_.table =
            std::make_unique<relay::FakeEvents>(relay::FakeEvents::Options{}, [this] { return world_.elapsed; });
        world_.table->keep_applied = false;
        for (std::uint64_t i = 0; i < load.backlog; ++i) world_.table->add(aggregate());
        for (std::uint64_t i = 0; i < load.open_writers; ++i) {
            world_.after(world_.up_to(load.open_for), [this, i] { write_long("long" + std::to_string(i)); });
        }
        if (load.per_second > 0) write_short();
        // The backlog was committed long ago.
        world_.after(load.backlog > 0 ? kWarmUp : Duration::zero(), [this, options] {
            relay_ = std::make_unique<SimulatedRelay>(world_, 1, options);
            relay_->pump();
        });
    }

    /// Adds the rows read to `sum`.
    void run(RelayReport& sum, double& seconds) {
        const Duration end = kWarmUp + kLength;
        while (world_.elapsed < end && world_.run_next()) {
            if (load_.backlog > 0 && world_.arrived.size() >= load_.backlog) break;
        }
        sum.events += world_.arrived.size();
        sum.polls += world_.report.polls;
        sum.rows_read += world_.report.rows_read;
        seconds += to_seconds(world_.elapsed - (load_.backlog > 0 ? kWarmUp : Duration::zero()));
    }

private:
    std::string aggregate() { return "short" + std::to_string(world_.random.below(kAggregates)); }

    void write_short() {
        const std::int64_t id = world_.table->begin(aggregate());
        world_.after(kShortTransaction, [this, id] { commit(id); });
        world_.after(from_seconds(1.0 / static_cast<double>(load_.per_second)), [this] { write_short(); });
    }
    void write_long(const std::string& name) {
        const std::int64_t id = world_.table->begin(name);
        world_.after(load_.open_for, [this, id, name] {
            commit(id);
            write_long(name);
        });
    }
    void commit(std::int64_t id) {
        world_.table->commit(id);
        if (relay_) relay_->wake();
    }

    RelayWorld world_;
    const Load load_;
    std::unique_ptr<SimulatedRelay> relay_;
};

void row(const Load& load) {
    RelayReport sum;
    double seconds = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) Reread(seed, load).run(sum, seconds);
    const auto events = static_cast<double>(sum.events);
    std::printf("| %llu | %.1f | %.2f | %.0f | %.0f |\n", static_cast<unsigned long long>(load.open_writers),
                to_seconds(load.open_for), static_cast<double>(sum.rows_read) / events,
                static_cast<double>(sum.polls) / seconds, events / seconds);
}

void table(std::uint64_t per_second, std::uint64_t backlog) {
    std::printf(
        "\n%llu short transactions per second, a backlog of %llu\n"
        "| open writers | open for, s | rows read per event | polls per second | events per second |\n"
        "|---|---|---|---|---|\n",
        static_cast<unsigned long long>(per_second), static_cast<unsigned long long>(backlog));
    row({.per_second = per_second, .backlog = backlog});
    for (const int open_for_ms : {200, 1'000, 5'000}) {
        for (const std::uint64_t writers : std::initializer_list<std::uint64_t>{1, 10, 50}) {
            row({writers, std::chrono::milliseconds(open_for_ms), per_second, backlog});
        }
    }
}

}  // namespace

}  // namespace deliverd::simulation

int main() {
    deliverd::simulation::table(1'000, 0);
    deliverd::simulation::table(1'000, 100'000);
}
