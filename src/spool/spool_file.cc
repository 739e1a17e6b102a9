#include "spool/spool_file.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "spool/entry.h"
#include "spool/line_reader.h"

namespace deliverd::spool {

namespace {

Failure bad_option(std::string message) {
    return bad_argument(std::move(message));
}

}  // namespace

bool is_spool_name(std::string_view name) {
    constexpr std::size_t kMaxNameBytes = 64;
    return !name.empty() && name.size() <= kMaxNameBytes &&
           std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

Result<void> check_options(const SpoolOptions& options) {
    if (options.path.empty() || options.path.find('\0') != std::string::npos) return bad_option("a spool needs a path");
    if (!is_spool_name(options.name)) {
        return bad_option("a spool's name has 1 to 64 letters, digits, '-', '_' and '.', not \"" +
                          one_line(options.name) + "\"");
    }
    return {};
}

SpoolFile::SpoolFile(SpoolOptions options, Files& files, const Clock& clock, Random& random)
    : options_(std::move(options)), files_(files), clock_(clock), random_(random) {}

Result<void> SpoolFile::find_file() {
    TRY_ASSIGN(place_, find_place(files_, options_.path));
    return {};
}

std::int64_t SpoolFile::now_ms() const {
    return unix_ms(clock_.wall_now());
}

Result<File> SpoolFile::open_to_read() const {
    File file(files_.open(place_.folder.get(), place_.name, O_RDONLY | O_NONBLOCK,
                          0));  // O_NONBLOCK: opening a pipe would block
    if (!file) return file_failure("open", place_.path, file.get());
    TRY_ASSIGN(const auto status, look_at(files_, file.get(), place_.path));
    if (!S_ISREG(status.st_mode)) return bad_option(place_.path + " is not a regular file");
    return file;
}

Result<SpoolScan> SpoolFile::each(const std::function<bool(const SpoolEntry&)>& entry,
                                  const std::function<void(const SpoolReject&)>& reject) {
    TRY(find_file());
    return scan(entry, reject);
}

Result<SpoolScan> SpoolFile::scan(const std::function<bool(const SpoolEntry&)>& entry,
                                  const std::function<void(const SpoolReject&)>& reject) {
    TRY_ASSIGN(const auto file, open_to_read());
    LineReader reader(files_, file.get(), place_.path);
    SpoolScan scan;
    while (true) {
        TRY_ASSIGN(const auto line, reader.next());
        if (!line) return scan;
        if (line->is_blank()) continue;
        const auto read = read_line(*line);
        if (!read) {
            ++scan.rejects;
            if (reject) reject({line->at.number, read.error().message, !line->ended});
            continue;
        }
        ++scan.entries;
        if (!entry(*read)) return scan;
    }
}

Result<std::optional<SpoolEntry>> SpoolFile::find(std::string_view job_id) {
    std::optional<SpoolEntry> found;
    const auto is_other = [&](const SpoolEntry& entry) {
        if (entry.job_id == job_id) found = entry;
        return !found;
    };
    TRY(each(is_other, {}));
    return found;
}

/// Whoever takes the lock first records what a run that died has left.
Result<SpoolFile::Work> SpoolFile::begin_work() {
    TRY(find_file());
    Work work;
    TRY(open_to_read());  // so that no lock is left beside a file that is not there
    TRY_ASSIGN(work.lock, take_lock(files_, place_, ".work.lock", options_.work_wait_seconds,
                                    "another retry or cleanup of this file is under way"));
    TRY_ASSIGN(work.file, open_to_read());  // again: another run may have replaced the file before the lock was free
    TRY(check_links(work.file.get()));
    TRY_ASSIGN(auto journal, Journal::read(files_, work.file.get(), place_));
    if (journal.empty()) {
        // The journal of a replaced file must not be taken for that of a later file with the same inode.
        const int removed = journal.exists() ? remove_journal() : 0;
        if (removed < 0) return file_failure("remove", place_.path_of(kJournalEnding), removed);
        return work;
    }
    TRY_ASSIGN(const auto recorded, record(work, std::move(journal)));
    work.recovered = recorded.replaced;
    work.rejected = recorded.rejected;
    TRY_ASSIGN(work.file, open_to_read());
    return work;
}

Result<void> SpoolFile::check_links(int file) {
    TRY_ASSIGN(const auto status, look_at(files_, file, place_.path));
    if (status.st_nlink <= 1) return {};
    return permanent("spool_linked", place_.path +
                                         " has another name (a hard link), which would keep the old entries when the "
                                         "file is replaced; remove one of the names, or use a symbolic link");
}

Result<std::int64_t> SpoolFile::settled_end(int file) {
    TRY_ASSIGN(const auto lock,
               take_lock(files_, place_, ".lock", options_.lock_wait_seconds, "somebody is appending"));
    TRY_ASSIGN(const auto status, look_at(files_, file, place_.path));
    return status.st_size;
}

int SpoolFile::remove_journal() {
    return files_.remove(place_.folder.get(), place_.name_of(kJournalEnding));
}

Result<RewriteReport> SpoolFile::replace(const Work& work, const Decide& decide) {
    return rewrite({files_, place_, work.file.get(), work.lock.get(), options_.lock_wait_seconds, now_ms()}, decide);
}

Result<RewriteReport> SpoolFile::record(Work& work, Journal journal) {
    const auto report = replace(work, [&](const LinePosition& at, const SpoolEntry& entry) -> Result<Decision> {
        TRY_ASSIGN(auto line, journal.at(at.offset));
        if (!line) return Decision{};
        const auto after = parse_entry(*line);
        // Somebody may have edited the file meanwhile, which keeps its inode: a note must not change another entry.
        const bool is_its = after && after->job_id == entry.job_id && entry.state == SpoolState::pending;
        return is_its ? Decision{Fate::replace, std::move(*line)} : Decision{};
    });
    if (report) remove_journal();  // if that fails: it belongs to the old file, and is not read
    return report;
}

namespace {

/// A base class, so that it is built before the spool that refers to it.
struct SystemServices {
    std::unique_ptr<Files> files = system_files();
    SystemClock clock;
    SystemRandom random;
};

class SystemSpool final : private SystemServices, public SpoolFile {
public:
    explicit SystemSpool(SpoolOptions options) : SpoolFile(std::move(options), *files, clock, random) {}
};

}  // namespace

}  // namespace deliverd::spool

namespace deliverd {

Result<std::unique_ptr<Spool>> open_spool(SpoolOptions options) {
    TRY(spool::check_options(options));
    return std::make_unique<spool::SystemSpool>(std::move(options));
}

}  // namespace deliverd
