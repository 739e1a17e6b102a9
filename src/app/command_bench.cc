#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/json.hpp>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "app/command.h"
#include "app/parts.h"

namespace deliverd::app {

namespace {

constexpr int kFillThreads = 4;
constexpr std::size_t kPayloadBytes = 200;
constexpr Duration kPatience = std::chrono::seconds(10);
constexpr Duration kStallLimit = std::chrono::seconds(60);  // without a single row settled

/// Counts what was settled and wakes whoever waits for the last one.
class SettleCounter final : public lane::Observer {
public:
    void on_flush(lane::Reason reason, std::size_t rows) override {
        if (reason != lane::Reason::success && reason != lane::Reason::dedup_hit) return;
        {
            const std::lock_guard lock(mutex_);
            settled_ += static_cast<std::int64_t>(rows);
        }
        changed_.notify_all();
    }

    /// False when nothing moved for kStallLimit.
    bool wait_for(std::int64_t rows) {
        std::unique_lock lock(mutex_);
        while (settled_ < rows) {
            const std::int64_t before = settled_;
            if (!changed_.wait_for(lock, kStallLimit, [&] { return settled_ != before; })) return false;
        }
        return true;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::int64_t settled_ = 0;
};

double cpu_seconds(const rusage& usage) {
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

rusage usage_now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
}

/// Different payloads, so that no row is a duplicate of another.
Result<void> fill(store::Database& database, std::int64_t rows) {
    std::atomic<std::int64_t> next = 0;
    std::mutex mutex;
    std::optional<Error> failure;
    const auto work = [&] {
        const auto lease = database.lease(std::nullopt);
        const auto fail = [&](const Error& error) {
            const std::lock_guard lock(mutex);
            failure = error;
        };
        if (!lease) return fail(lease.error());
        for (std::int64_t i = next++; i < rows; i = next++) {
            const std::string payload = fmt::format("{:<{}}", fmt::format("bench {}", i), kPayloadBytes);
            if (const auto id = (*lease)->enqueue_memory("bench", payload, i); !id) {
                next = rows;
                return fail(id.error());
            }
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kFillThreads; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    if (failure) return tl::unexpected(*failure);
    return {};
}

/// How many rows there are to work off, once the table is as the arguments want it.
Result<std::int64_t> prepare(store::Database& database, const BenchArguments& arguments) {
    const auto counts = database.memory_outbox()->counts();
    if (!counts) return tl::unexpected(counts.error());
    if (arguments.existing) {
        if (counts->pending == 0) return permanent("bad_argument", "--existing: the table has no pending rows");
        return counts->pending;
    }
    if (counts->pending + counts->sent + counts->dead > 0) {
        return permanent("bad_argument",
                         "outbox_memory is not empty; bench would deliver its rows into nothing: name a scratch "
                         "database, or say --existing");
    }
    if (const auto filled = fill(database, arguments.rows); !filled) return tl::unexpected(filled.error());
    return arguments.rows;
}

struct Figures {
    std::int64_t rows = 0;
    double seconds = 0;
    double cpu_seconds = 0;
    double peak_rss_mb = 0;

    [[nodiscard]] double rows_per_second() const { return static_cast<double>(rows) / seconds; }
};

int report(const Context& context, const BenchArguments& arguments, const std::string& database, const Figures& f) {
    const double cpu_per_million = f.cpu_seconds * 1e6 / static_cast<double>(f.rows);
    context.out << fmt::format(
        "{}\n  rows               {:>12}\n  batch size         {:>12}\n  seconds            {:>12.3f}\n"
        "  rows/s             {:>12.0f}\n  CPU s / million    {:>12.2f}\n  peak resident MB   {:>12.1f}\n",
        database, f.rows, arguments.batch_size, f.seconds, f.rows_per_second(), cpu_per_million, f.peak_rss_mb);
    if (arguments.json_file.empty()) return kDone;
    const boost::json::object object{{"database", database},
                                     {"rows", f.rows},
                                     {"batch_size", arguments.batch_size},
                                     {"seconds", f.seconds},
                                     {"rows_per_second", f.rows_per_second()},
                                     {"cpu_seconds", f.cpu_seconds},
                                     {"cpu_seconds_per_million", cpu_per_million},
                                     {"peak_rss_mb", f.peak_rss_mb}};
    std::ofstream file(arguments.json_file);
    file << boost::json::serialize(object) << "\n";
    file.close();
    return file ? kDone : complain(context, kFailed, fmt::format("cannot write {}", arguments.json_file));
}

}  // namespace

int run_bench(const Context& context, const Config& config, const BenchArguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    auto database = open_ready_database(config.database, *log);
    if (!database) return complain(context, database.error());
    const auto rows = prepare(**database, arguments);
    if (!rows) return complain(context, rows.error());

    LaneConfig lane;
    lane.options.name = "bench";
    lane.options.batch_size = arguments.batch_size;
    lane.options.parallelism = arguments.batch_size * 2;
    lane.sink.type = SinkConfig::Type::none;
    SettleCounter counter;
    SystemRandom random;
    auto unit = LaneUnit::make(lane, make_worker_id(random), **database, counter, *log);
    if (!unit) return complain(context, unit.error());

    const double cpu_before = cpu_seconds(usage_now());
    const SystemClock clock;
    const Instant start = clock.now();
    (*unit)->lane().start();
    const bool all = counter.wait_for(*rows);
    Figures figures;
    figures.rows = *rows;
    figures.seconds = to_seconds(clock.now() - start);
    const rusage after = usage_now();
    figures.cpu_seconds = cpu_seconds(after) - cpu_before;
    figures.peak_rss_mb = static_cast<double>(after.ru_maxrss) / 1024;
    (*unit)->stop(kPatience);
    if (!all) return complain(context, kFailed, fmt::format("nothing was settled for {} s", to_seconds(kStallLimit)));
    return report(context, arguments, (*database)->describe(), figures);
}

}  // namespace deliverd::app
