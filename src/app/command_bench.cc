#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <mutex>
#include <utility>

#include "app/command.h"
#include "app/parts.h"
#include "app/temporary_folder.h"

namespace deliverd::app {

namespace {

constexpr std::size_t kPayloadBytes = 200;
constexpr Duration kPatience = std::chrono::seconds(10);
constexpr Duration kProgressInterval = std::chrono::milliseconds(250);
constexpr Duration kStallLimit = std::chrono::seconds(60);  // without a single row settled

/// How far it is, on a terminal only. One thread at a time.
class Progress {
public:
    explicit Progress(const Context& context) : context_(context), on_(isatty(STDERR_FILENO) == 1) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(const char* doing, std::int64_t done, std::int64_t all) {
        if (!on_) return;
        context_.err << fmt::format("\r{} {} of {} rows\x1b[K", doing, done, all);
        context_.err.flush();
        shown_ = true;
    }
    void clear() {
        if (std::exchange(shown_, false)) context_.err << "\r\x1b[K" << std::flush;
    }

private:
    const Context& context_;
    const bool on_;
    bool shown_ = false;
};

/// Counts what was settled and wakes whoever waits for the last one.
class SettleCounter final : public pipeline::Observer {
public:
    void on_flush(pipeline::Reason reason, std::size_t rows) override {
        if (reason != pipeline::Reason::success && reason != pipeline::Reason::dedup_hit) return;
        {
            const std::lock_guard lock(mutex_);
            settled_ += static_cast<std::int64_t>(rows);
        }
        changed_.notify_all();
    }

    /// False when nothing moved for kStallLimit.
    bool wait_for(std::int64_t rows, Progress& progress) {
        const SystemClock clock;
        Instant moved = clock.now();
        std::int64_t before = 0;
        std::unique_lock lock(mutex_);
        while (!changed_.wait_for(lock, kProgressInterval, [&] { return settled_ >= rows; })) {
            if (settled_ != std::exchange(before, settled_)) moved = clock.now();
            if (clock.now() - moved > kStallLimit) return false;
            progress.show("delivered", settled_, rows);
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

/// The rows the benchmark made: in a space that is nobody else's, with ids in a range that others may share.
class OwnRows {
public:
    OwnRows(store::Database& database, std::string space) : database_(database), space_(std::move(space)) {}

    Result<void> fill(std::int64_t rows, Progress& progress) {
        for (std::int64_t done = 0; done < rows;) {
            const std::int64_t end = std::min(done + kRowsTogether, rows);
            std::vector<store::NewMemory> batch;
            for (; done < end; ++done) batch.push_back(memory(done));
            const auto ids = database_.enqueue_memories(batch);
            if (!ids) return tl::unexpected(ids.error());
            const auto [least, most] = std::ranges::minmax(*ids);
            first_ = std::min(first_, least);
            last_ = std::max(last_, most);
            progress.show("filling", done, rows);
        }
        return {};
    }

    /// A bounded number of rows a transaction. Nothing to do when fill() was not called.
    Result<void> remove(Progress& progress) {
        for (; first_ <= last_; first_ += kRowsTogether) {
            const std::int64_t until = std::min(first_ + kRowsTogether - 1, last_);
            const auto removed = database_.remove_memories(space_, first_, until);
            if (!removed) return tl::unexpected(removed.error());
            progress.show("removing, up to", until, last_);
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
    const auto counts = database.memory_outbox("memory")->counts();
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
    if (const auto filled = own.fill(arguments.rows, progress); !filled) return tl::unexpected(filled.error());
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

/// Works `rows` off with a lane whose sink does nothing.
Result<Figures> measure(store::Database& database, std::int64_t rows, std::int32_t batch_size, Progress& progress,
                        Log& log) {
    LaneConfig lane;
    lane.options.name = "bench";
    lane.options.batch_size = batch_size;
    lane.options.parallelism = batch_size * 2;
    lane.sink.type = SinkConfig::Type::none;
    SettleCounter counter;
    SystemRandom random;
    auto unit = LaneUnit::make(lane, {}, make_worker_id(random), database, counter, log);
    if (!unit) return tl::unexpected(unit.error());

    const double cpu_before = cpu_seconds(usage_now());
    const SystemClock clock;
    const Instant start = clock.now();
    (*unit)->lane().start();
    const bool all = counter.wait_for(rows, progress);
    Figures figures;
    figures.rows = rows;
    figures.seconds = to_seconds(clock.now() - start);
    const rusage after = usage_now();
    figures.cpu_seconds = cpu_seconds(after) - cpu_before;
    figures.peak_rss_mb = static_cast<double>(after.ru_maxrss) / 1024;
    (*unit)->stop(kPatience);
    if (!all) return permanent("stalled", fmt::format("nothing was settled for {} s", to_seconds(kStallLimit)));
    return figures;
}

int bench_on(const Context& context, const DatabaseConfig& target, const BenchArguments& arguments, Log& log) {
    auto database = open_ready_database(target, log);
    if (!database) return complain(context, database.error());
    Progress progress(context);
    SystemRandom random;
    OwnRows own(**database, fmt::format("deliverd-bench-{:016x}", random.next()));
    const auto rows = prepare(**database, arguments, own, progress);
    const auto figures = rows ? measure(**database, *rows, arguments.batch_size, progress, log)
                              : Result<Figures>(tl::unexpected(rows.error()));
    const auto removed = own.remove(progress);
    progress.clear();
    if (!figures) return complain(context, figures.error());
    const int status = report(context, arguments, (*database)->describe(), *figures);
    if (removed) return status;
    return complain(context, kFailed,
                    fmt::format("the rows made for this could not all be removed: {}", removed.error().message));
}

}  // namespace

int run_bench(const Context& context, const LoadedConfig& loaded, const BenchArguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, loaded.config.log.format);
    DatabaseConfig target = loaded.config.database;
    const bool named = loaded.values.has("database.url") || loaded.values.has("database.host");
    if (named || arguments.existing) return bench_on(context, target, arguments, *log);

    // The default file is the one `serve` works with: not a place for rows that are delivered into nothing.
    const TemporaryFolder folder("deliverd-bench");
    if (folder.path().empty()) return complain(context, kFailed, "cannot make a temporary folder; is TMPDIR right?");
    target.sqlite.path = folder.path() + "/bench.db";
    return bench_on(context, target, arguments, *log);
}

}  // namespace deliverd::app
