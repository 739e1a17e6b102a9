// SpoolFile: finds and sends the entries that are due.
#include <algorithm>
#include <exception>
#include <utility>

#include "base/try.h"
#include "message/http_answer.h"
#include "spool/entry.h"
#include "spool/line_reader.h"
#include "spool/spool_file.h"

namespace deliverd::spool {

namespace {

constexpr std::int64_t kMsASecond = 1000;

/// An exception of the caller's code must not end a run whose earlier answers are still to be recorded.
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

Result<std::vector<SpoolEntry>> SpoolFile::due(std::int64_t limit) {
    TRY(find_file());
    TRY_ASSIGN(const auto file, open_to_read());
    TRY_ASSIGN(const auto found, find_due(file.get(), limit, kWholeFile));
    std::vector<SpoolEntry> entries;
    for (const Due& due : found.due) {
        TRY_ASSIGN(auto entry, entry_at(file.get(), due.offset));
        entries.push_back(std::move(entry));
    }
    return entries;
}

Result<SpoolFile::DueEntries> SpoolFile::find_due(int file, std::int64_t limit, std::int64_t end) {
    const auto most = static_cast<std::size_t>(std::clamp<std::int64_t>(limit, 0, kMaxSpoolRun));
    const std::int64_t now = now_ms();
    LineReader reader(files_, file, place_.path, {.end = end});
    DueEntries found;
    while (true) {
        TRY_ASSIGN(const auto line, reader.next());
        if (!line) break;
        if (line->is_blank()) continue;
        const auto entry = read_line(*line);
        if (!entry) ++found.rejects;
        if (entry && is_unmarked(*entry)) ++found.unmarked;
        if (!entry || !is_due(*entry, now)) continue;
        // A heap with the latest on top keeps the earliest `most`.
        const Due due{entry->next_retry_ms, line->at.offset};
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

/// Only offsets are kept of what is due, and each entry is read when its turn comes: memory does not grow with them.
Result<SpoolEntry> SpoolFile::entry_at(int file, std::int64_t offset) {
    LineReader reader(files_, file, place_.path, {.from = {.offset = offset}, .chunk = kOneLineChunk});
    TRY_ASSIGN(const auto line, reader.next());
    if (!line) return permanent("io_error", place_.path + " became shorter while it was read");
    return read_line(*line);
}

Result<bool> SpoolFile::attempt(int file, const Due& due, const SpoolSender& sender, JournalWriter& journal,
                                SpoolSummary& summary) {
    TRY_ASSIGN(const auto entry, entry_at(file, due.offset));
    const std::string body = request_body(entry);
    const SpoolAnswer answer = ask(sender, {entry.job_id, entry.endpoint, body});
    if (answer.cut_short) return false;
    const std::int64_t now = now_ms();
    std::string after;
    if (answer.delivered) {
        after = resolved_line(entry, now);
    } else {
        // A receiver can lengthen the wait, up to a limit, but not shorten it.
        const double asked = std::clamp(answer.wait_seconds, 0.0, to_seconds(kLongestRetryAfter));
        const auto wait =
            std::max(draw_delay_ms(entry.attempts_made + 1, random_), static_cast<std::int64_t>(asked * kMsASecond));
        after = failed_line(entry, answer.error, now + wait);
    }
    TRY(journal.note(due.offset, after));
    ++summary.total;
    ++(answer.delivered ? summary.resolved : is_last_attempt(entry) ? summary.exhausted : summary.failed);
    return true;
}

Result<SpoolSummary> SpoolFile::retry(const SpoolSender& sender, const SpoolRetryOptions& options) {
    TRY_ASSIGN(auto work, begin_work());
    SpoolSummary summary;
    summary.recovered = work.recovered;
    summary.rejected = work.rejected;
    TRY_ASSIGN(const auto end, settled_end(work.file.get()));
    TRY_ASSIGN(const auto found, find_due(work.file.get(), options.limit, end));
    summary.more_due = found.more;
    std::optional<Error> problem;
    if (!found.due.empty()) {
        TRY_ASSIGN(auto journal, JournalWriter::begin(files_, work.file.get(), place_));
        const auto of = static_cast<std::int64_t>(found.due.size());
        for (const Due& due : found.due) {
            if (options.should_stop && options.should_stop()) break;
            const auto done = attempt(work.file.get(), due, sender, journal, summary);
            if (!done) {
                problem = done.error();
                break;
            }
            if (!*done) break;
            if (options.progress) options.progress(summary, of);
        }
    }
    // What was sent is recorded even if the run ends with a problem.
    if (summary.total > 0 || found.rejects > 0) {
        TRY_ASSIGN(auto journal, Journal::read(files_, work.file.get(), place_));
        if (journal.size() != summary.total) {
            return retryable("io_error", place_.path_of(kJournalEnding) + " has " + std::to_string(journal.size()) +
                                             " readable notes of " + std::to_string(summary.total) +
                                             " attempts; the others will be made again, with the same keys");
        }
        TRY_ASSIGN(const auto recorded, record(work, std::move(journal)));
        summary.rejected += recorded.rejected;
    } else {
        remove_journal();  // that of a run that was stopped before its first attempt
    }
    if (problem) return Failure(*problem);
    summary.unmarked = found.unmarked + summary.exhausted;
    return summary;
}

}  // namespace deliverd::spool
