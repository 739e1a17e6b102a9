#include "spool/spool_file.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "spool/entry.h"
#include "spool/line_reader.h"

namespace deliverd::spool {

namespace {

constexpr std::int64_t kMsASecond = 1000;
constexpr double kLongestAskedWaitSeconds = 3600;  // no receiver makes us wait longer than our own longest wait

Failure bad(std::string message) {
    return permanent("bad_argument", std::move(message));
}

SpoolAnswer ask(const SpoolSender& sender, const SpoolPost& post) {
    try {
        return sender(post);
    } catch (const std::exception& thrown) {
        return {.error = {thrown.what(), "EXCEPTION"}};
    } catch (...) {
        return {.error = {"the sender threw something", "EXCEPTION"}};
    }
}

}  // namespace

bool is_spool_name(std::string_view name) {
    constexpr std::size_t kMaxNameBytes = 64;
    return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
               c == '.';
    });
}

Result<void> check_options(const SpoolOptions& options) {
    if (options.path.empty() || options.path.find('\0') != std::string::npos) return bad("a spool needs a path");
    if (!is_spool_name(options.name)) {
        return bad("a spool's name has 1 to 64 letters, digits, '-', '_' and '.', not \"" + one_line(options.name) +
                   "\"");
    }
    return {};
}

SpoolFile::SpoolFile(SpoolOptions options, Files& files, const Clock& clock, Random& random)
    : options_(std::move(options)), path_(options_.path), files_(files), clock_(clock), random_(random) {}

void SpoolFile::find_file() {
    path_ = real_path(options_.path);
}

std::int64_t SpoolFile::now_ms() const {
    return unix_ms(clock_.wall_now());
}

Result<File> SpoolFile::open_to_read() const {
    File file(files_.open(path_, O_RDONLY | O_NONBLOCK, 0));  // a pipe would be waited for
    if (!file) return file_failure("open", path_, file.get());
    struct stat status = {};
    if (const int done = files_.status(file.get(), status); done < 0) return file_failure("look at", path_, done);
    if (!S_ISREG(status.st_mode)) return bad(path_ + " is not a regular file");
    return file;
}

Result<SpoolScan> SpoolFile::each(const std::function<bool(const SpoolEntry&)>& entry,
                                  const std::function<void(const SpoolReject&)>& reject) {
    find_file();
    return scan(entry, reject);
}

Result<SpoolScan> SpoolFile::scan(const std::function<bool(const SpoolEntry&)>& entry,
                                  const std::function<void(const SpoolReject&)>& reject) {
    const auto file = open_to_read();
    if (!file) return Failure(file.error());
    LineReader reader(files_, file->get(), path_);
    SpoolScan scan;
    while (true) {
        const auto line = reader.next();
        if (!line) return Failure(line.error());
        if (!*line) return scan;
        if ((*line)->is_blank()) continue;
        const auto read = read_line(**line);
        if (!read) {
            ++scan.rejects;
            if (reject) reject({(*line)->at.number, read.error().message, !(*line)->ended});
            continue;
        }
        ++scan.entries;
        if (!entry(*read)) return scan;
    }
}

Result<std::optional<SpoolEntry>> SpoolFile::find(std::string_view job_id) {
    std::optional<SpoolEntry> found;
    const auto looked = each(
        [&](const SpoolEntry& entry) {
            if (entry.job_id == job_id) found = entry;
            return !found;
        },
        {});
    if (!looked) return Failure(looked.error());
    return found;
}

Result<std::vector<SpoolEntry>> SpoolFile::due(std::int64_t limit) {
    find_file();
    const auto file = open_to_read();
    if (!file) return Failure(file.error());
    const auto found = find_due(file->get(), limit);
    if (!found) return Failure(found.error());
    std::vector<SpoolEntry> entries;
    for (const Due& due : found->due) {
        auto entry = entry_at(file->get(), due.offset);
        if (!entry) return Failure(entry.error());
        entries.push_back(std::move(*entry));
    }
    return entries;
}

Result<SpoolFile::Found> SpoolFile::find_due(int file, std::int64_t limit) {
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(limit, 0, kMaxSpoolRun));
    const std::int64_t now = now_ms();
    LineReader reader(files_, file, path_);
    Found found;
    while (true) {
        const auto line = reader.next();
        if (!line) return Failure(line.error());
        if (!*line) break;
        if ((*line)->is_blank()) continue;
        const auto entry = read_line(**line);
        if (!entry) ++found.rejects;
        if (!entry || !is_due(*entry, now)) continue;
        // A heap with the latest on top: the earliest `most` stay.
        const Due due{entry->next_retry_ms, (*line)->at.offset};
        if (found.due.size() == most) {
            found.more = true;
            if (most == 0 || found.due.front() < due) continue;
            std::ranges::pop_heap(found.due);
            found.due.pop_back();
        }
        found.due.push_back(due);
        std::ranges::push_heap(found.due);
    }
    std::ranges::sort(found.due);
    return found;
}

Result<SpoolEntry> SpoolFile::entry_at(int file, std::int64_t offset) {
    LineReader reader(files_, file, path_, {.from = {offset, 1}, .chunk = kOneLineChunk});
    const auto line = reader.next();
    if (!line) return Failure(line.error());
    if (!*line) return permanent("io_error", path_ + " became shorter while it was read");
    return read_line(**line);
}

Result<SpoolFile::Work> SpoolFile::begin_work() {
    find_file();
    Work work;
    auto before = open_to_read();  // so that no lock is left beside a file that is not there
    if (!before) return Failure(before.error());
    auto lock = take_lock(files_, path_ + ".work.lock", options_.work_wait_seconds,
                          "another retry or cleanup of this file is under way");
    if (!lock) return Failure(lock.error());
    work.lock = std::move(*lock);
    auto file = open_to_read();
    if (!file) return Failure(file.error());
    work.file = std::move(*file);
    if (auto ok = check_links(work.file.get()); !ok) return Failure(ok.error());
    auto journal = Journal::read(files_, work.file.get(), path_);
    if (!journal) return Failure(journal.error());
    if (journal->empty()) {
        // One about a file that was replaced must not be taken for one about a later file with the same inode.
        const int removed = journal->exists() ? files_.remove(journal_path(path_)) : 0;
        if (removed < 0) return file_failure("remove", journal_path(path_), removed);
        return work;
    }
    const auto recorded = record(work, std::move(*journal));
    if (!recorded) return Failure(recorded.error());
    work.recovered = recorded->replaced;
    work.rejected = recorded->rejected;
    file = open_to_read();
    if (!file) return Failure(file.error());
    work.file = std::move(*file);
    return work;
}

Result<void> SpoolFile::check_links(int file) {
    struct stat status = {};
    if (const int done = files_.status(file, status); done < 0) return file_failure("look at", path_, done);
    if (status.st_nlink <= 1) return {};
    return permanent("spool_linked", path_ +
                                         " has another name (a hard link), which would keep the old entries when the "
                                         "file is replaced; remove one of the names, or use a symbolic link");
}

Result<RewriteReport> SpoolFile::replace(const Work& work, const Decide& decide) {
    return rewrite({files_, path_, work.file.get(), work.lock.get(), options_.lock_wait_seconds, now_ms()}, decide);
}

Result<RewriteReport> SpoolFile::record(Work& work, Journal journal) {
    const auto report = replace(work, [&](const LinePosition& at, const SpoolEntry& entry) -> Result<Decision> {
        auto line = journal.at(at.offset);
        if (!line) return Failure(line.error());
        if (!*line) return Decision{};
        const auto after = parse_entry(**line);
        const bool is_its = after && after->job_id == entry.job_id && entry.state == SpoolState::pending;
        return is_its ? Decision{Fate::replace, std::move(**line)} : Decision{};
    });
    if (report) files_.remove(journal_path(path_));  // what stays is about a file that is no more: not read
    return report;
}

Result<void> SpoolFile::attempt(int file, const Due& due, const SpoolSender& sender, JournalWriter& journal,
                                SpoolSummary& summary) {
    const auto entry = entry_at(file, due.offset);
    if (!entry) return Failure(entry.error());
    const std::string body = request_body(*entry);
    const SpoolAnswer answer = ask(sender, {entry->job_id, entry->endpoint, body});
    const std::int64_t now = now_ms();
    std::string after;
    if (answer.delivered) {
        after = resolved_line(*entry, now);
    } else {
        const double asked = std::clamp(answer.wait_seconds, 0.0, kLongestAskedWaitSeconds);
        const auto wait =
            std::max(draw_delay_ms(entry->attempts_made + 1, random_), static_cast<std::int64_t>(asked * kMsASecond));
        after = failed_line(*entry, answer.error, now + wait);
    }
    if (auto noted = journal.note(due.offset, after); !noted) return Failure(noted.error());
    ++summary.total;
    ++(answer.delivered ? summary.resolved : is_last_attempt(*entry) ? summary.exhausted : summary.failed);
    return {};
}

Result<SpoolSummary> SpoolFile::retry(const SpoolSender& sender, const SpoolRetryOptions& options) {
    auto work = begin_work();
    if (!work) return Failure(work.error());
    SpoolSummary summary;
    summary.recovered = work->recovered;
    summary.rejected = work->rejected;
    const auto found = find_due(work->file.get(), options.limit);
    if (!found) return Failure(found.error());
    summary.more_due = found->more;
    std::optional<Error> problem;
    if (!found->due.empty()) {
        auto journal = JournalWriter::begin(files_, work->file.get(), path_);
        if (!journal) return Failure(journal.error());
        const auto of = static_cast<std::int64_t>(found->due.size());
        for (const Due& due : found->due) {
            if (options.should_stop && options.should_stop()) break;
            const auto done = attempt(work->file.get(), due, sender, *journal, summary);
            if (!done) {
                problem = done.error();
                break;
            }
            if (options.progress) options.progress(summary, of);
        }
    }
    if (summary.total > 0 || found->rejects > 0) {
        auto journal = Journal::read(files_, work->file.get(), path_);
        if (!journal) return Failure(journal.error());
        if (journal->size() != summary.total) {
            return retryable("io_error", journal_path(path_) + " has " + std::to_string(journal->size()) +
                                             " readable notes of " + std::to_string(summary.total) +
                                             " attempts; the others will be made again, with the same keys");
        }
        const auto recorded = record(*work, std::move(*journal));
        if (!recorded) return Failure(recorded.error());
        summary.rejected += recorded->rejected;
    } else if (!found->due.empty()) {
        files_.remove(journal_path(path_));
    }
    if (problem) return Failure(*problem);
    return summary;
}

Result<SpoolCleanup> SpoolFile::cleanup() {
    auto work = begin_work();
    if (!work) return Failure(work.error());
    const std::int64_t now = now_ms();
    SpoolCleanup cleanup;
    bool any = false;
    const auto looked = scan(
        [&](const SpoolEntry& entry) {
            any = any || is_over(entry, now);
            return true;
        },
        {});
    if (!looked) return Failure(looked.error());
    cleanup.kept = looked->entries;
    cleanup.rejected = work->rejected;
    if (!any && looked->rejects == 0) return cleanup;
    const auto report = replace(*work, [now](const LinePosition&, const SpoolEntry& entry) -> Result<Decision> {
        return Decision{is_over(entry, now) ? Fate::drop : Fate::keep};
    });
    if (!report) return Failure(report.error());
    return SpoolCleanup{report->kept, report->removed, work->rejected + report->rejected};
}

Result<SpoolChange> SpoolFile::change(std::span<const std::string> job_ids,
                                      const std::function<bool(const SpoolEntry&)>& concerns,
                                      const std::function<std::string(const SpoolEntry&)>& new_line) {
    auto work = begin_work();
    if (!work) return Failure(work.error());
    std::vector<std::string> wanted(job_ids.begin(), job_ids.end());
    std::ranges::sort(wanted);
    const auto changes = [&](const SpoolEntry& entry) {
        return concerns(entry) && std::ranges::binary_search(wanted, entry.job_id);
    };
    bool any = false;
    const auto looked = scan(
        [&](const SpoolEntry& entry) {
            any = changes(entry);
            return !any;
        },
        {});
    if (!looked) return Failure(looked.error());
    SpoolChange change;
    change.rejected = work->rejected;
    if (!any) return change;
    const auto report = replace(*work, [&](const LinePosition&, const SpoolEntry& entry) -> Result<Decision> {
        if (!changes(entry)) return Decision{};
        change.job_ids.push_back(entry.job_id);
        return Decision{Fate::replace, new_line(entry)};
    });
    if (!report) return Failure(report.error());
    change.rejected += report->rejected;
    return change;
}

Result<SpoolChange> SpoolFile::resolve(std::span<const std::string> job_ids) {
    const std::int64_t now = now_ms();
    return change(
        job_ids, [](const SpoolEntry& entry) { return entry.state != SpoolState::resolved; },
        [now](const SpoolEntry& entry) { return resolved_line(entry, now); });
}

Result<SpoolChange> SpoolFile::revive(std::span<const std::string> job_ids) {
    const std::int64_t now = now_ms();
    return change(
        job_ids, [](const SpoolEntry& entry) { return entry.state == SpoolState::exhausted; },
        [now](const SpoolEntry& entry) { return revived_line(entry, now); });
}

}  // namespace deliverd::spool
