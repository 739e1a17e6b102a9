#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>
#include <fstream>
#include <limits>
#include <utility>

#include "base/mutex.h"
#include "base/progress.h"
#include "base/try.h"
#include "daemon/parts.h"
#include "demo/demo.h"
#include "demo/temporary_folder.h"

namespace deliverd::demo {

namespace {

constexpr std::size_t kPayloadBytes = 200;
constexpr Duration kPatience = std::chrono::seconds(10);
constexpr Duration kProgressInterval = std::chrono::milliseconds(250);
constexpr Duration kStallLimit = std::chrono::seconds(60);  // without a single row settled

void show_rows(Progress& progress, std::string_view doing, std::int64_t done, std::int64_t all) {
    progress.show(fmt::format("{} {} of {} rows", doing, done, all));
}

/// Counts what was settled and wakes the thread that waits for the last row.
class SettleCounter final : public pipeline::Observer {
public:
    void on_flush(pipeline::Reason reason, std::size_t rows) override {
        if (reason != pipeline::Reason::success && reason != pipeline::Reason::dedup_hit) return;
        const MutexLock lock(mutex_);
        settled_ += static_cast<std::int64_t>(rows);
        changed_.notify_all();
    }

    /// False when nothing moved for kStallLimit.
    bool wait_for(std::int64_t rows, Progress& progress) {
        const SystemClock clock;
        Instant moved = clock.now();
        std::int64_t before = 0;
        const MutexLock lock(mutex_);
        while (!changed_.wait_for(mutex_, kProgressInterval, [&]() REQUIRES(mutex_) { return settled_ >= rows; })) {
            if (settled_ != std::exchange(before, settled_)) moved = clock.now();
            if (clock.now() - moved > kStallLimit) return false;
            show_rows(progress, "delivered", settled_, rows);
        }
        return true;
    }

private:
    Mutex mutex_;
    Condition changed_;
    std::int64_t settled_ GUARDED_BY(mutex_) = 0;
};

/// Of all threads.
double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// The rows the benchmark made: in a space that is nobody else's, with ids in a range that others may share.
class OwnRows {
public:
    OwnRows(store::Database& database, std::string space) : database_(database), space_(std::move(space)) {}

    Result<void> fill(std::int64_t rows, Progress& progress) {
        for (std::int64_t done = 0; done < rows;) {
            const std::int64_t end = std::min(done + kRowsTogether, rows);
            std::vector<store::NewMemory> batch;
            for (; done < end; ++done) batch.push_back(memory(done));
            TRY_ASSIGN(const auto ids, database_.enqueue_memories(batch));
            const auto [least, most] = std::ranges::minmax(ids);
            first_ = std::min(first_, least);
            last_ = std::max(last_, most);
            show_rows(progress, "filling", done, rows);
        }
        return {};
    }

    /// A bounded number of rows a transaction. Nothing to do when fill() was not called.
    Result<void> remove(Progress& progress) {
        for (; first_ <= last_; first_ += kRowsTogether) {
            const std::int64_t until = std::min(first_ + kRowsTogether - 1, last_);
            // By space as well: others may have enqueued rows with ids between ours.
            TRY(database_.remove_memories(space_, first_, until));
            show_rows(progress, "removing, up to", until, last_);
        }
        return {};
    }

private:
    static constexpr std::int64_t kRowsTogether = 2000;

    /// Different payloads, so that no row is a duplicate of another.
    [[nodiscard]] store::NewMemory memory(std::int64_t number) const {
        return {space_, fmt::format("{:<{}}", fmt::format("bench {}", number), kPayloadBytes), number};
    }

    store::Database& database_;
    const std::string space_;
    std::int64_t first_ = std::numeric_limits<std::int64_t>::max();
    std::int64_t last_ = 0;
};

/// How many rows there are to work off, once the table is as the arguments want it.
Result<std::int64_t> prepare(store::Database& database, const BenchArguments& arguments, OwnRows& own,
                             Progress& progress) {
    TRY_ASSIGN(const auto counts, database.memory_outbox("memory")->counts());
    if (arguments.existing) {
        if (counts.pending == 0) return bad_argument("--existing: the table has no pending rows");
        return counts.pending;
    }
    if (counts.pending + counts.sent + counts.dead > 0) {
        return bad_argument(
            "outbox_memory is not empty, and bench would discard its rows: name a scratch database, or use "
            "--existing");
    }
    TRY(own.fill(arguments.rows, progress));
    return arguments.rows;
}

struct Figures {
    std::int64_t rows = 0;
    double seconds = 0;
    double cpu_seconds = 0;
    double peak_rss_mb = 0;

    [[nodiscard]] double rows_per_second() const { return static_cast<double>(rows) / seconds; }
};

Result<void> report(std::ostream& out, const BenchArguments& arguments, const std::string& database, const Figures& f) {
    const double cpu_per_million = f.cpu_seconds * 1e6 / static_cast<double>(f.rows);
    out << fmt::format(
        "{}\n  rows               {:>12}\n  batch size         {:>12}\n  seconds            {:>12.3f}\n"
        "  rows/s             {:>12.0f}\n  CPU s / million    {:>12.2f}\n  peak resident MB   {:>12.1f}\n",
        database, f.rows, arguments.batch_size, f.seconds, f.rows_per_second(), cpu_per_million, f.peak_rss_mb);
    if (arguments.json_file.empty()) return {};
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
    if (!file) return permanent("io", fmt::format("cannot write {}", arguments.json_file));
    return {};
}

/// Works `rows` off with a lane whose sink does nothing.
Result<Figures> measure(store::Database& database, std::int64_t rows, std::int32_t batch_size, Progress& progress,
                        Log& log) {
    config::LaneConfig lane;
    lane.options.name = "bench";
    lane.options.batch_size = batch_size;
    lane.options.parallelism = batch_size * 2;
    lane.sink.type = config::SinkConfig::Type::none;
    SettleCounter counter;
    SystemRandom random;
    TRY_ASSIGN(auto unit, daemon::LaneUnit::make(lane, {}, daemon::make_worker_id(random), database, counter, log));

    const double cpu_before = cpu_seconds();
    const SystemClock clock;
    const Instant start = clock.now();
    unit->lane().start();
    const bool all = counter.wait_for(rows, progress);
    Figures figures;
    figures.rows = rows;
    figures.seconds = to_seconds(clock.now() - start);
    figures.cpu_seconds = cpu_seconds() - cpu_before;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    figures.peak_rss_mb = static_cast<double>(usage.ru_maxrss) / 1024;
    unit->lane().stop(kPatience);
    if (!all) return permanent("stalled", fmt::format("nothing was settled for {} s", to_seconds(kStallLimit)));
    return figures;
}

Result<void> bench_on(const config::DatabaseConfig& target, const BenchArguments& arguments, std::ostream& out,
                      std::ostream& err, Log& log) {
    TRY_ASSIGN(const auto database, daemon::open_ready_database(target, log));
    Progress progress(err);
    SystemRandom random;
    OwnRows own(*database, fmt::format("deliverd-bench-{:016x}", random.next()));
    const auto figures = prepare(*database, arguments, own, progress).and_then([&](std::int64_t rows) {
        return measure(*database, rows, arguments.batch_size, progress, log);
    });
    const auto removed = own.remove(progress);  // whatever failed before
    progress.clear();
    if (!figures) return Failure(figures.error());
    TRY(report(out, arguments, database->describe(), *figures));
    if (removed) return {};
    return permanent("rows_left",
                     fmt::format("the rows made for this could not all be removed: {}", removed.error().message));
}

}  // namespace

Result<void> run_bench(const config::LoadedConfig& loaded, const BenchArguments& arguments, std::ostream& out,
                       std::ostream& err) {
    const auto log = make_stderr_log(LogLevel::error, loaded.config.log.format);
    config::DatabaseConfig target = loaded.config.database;
    const bool named = loaded.values.has("database.url") || loaded.values.has("database.host");
    if (named || arguments.existing) return bench_on(target, arguments, out, err, *log);

    // The default file is the one `serve` works with: not a place for rows that are delivered into nothing.
    const TemporaryFolder folder("deliverd-bench");
    if (folder.path().empty()) return permanent("no_folder", "cannot make a temporary folder; is TMPDIR right?");
    target.sqlite.path = folder.path() + "/bench.db";
    return bench_on(target, arguments, out, err, *log);
}

}  // namespace deliverd::demo
