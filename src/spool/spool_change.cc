// SpoolFile: cleanup, and changes by hand.
#include <algorithm>

#include "base/try.h"
#include "spool/entry.h"
#include "spool/spool_file.h"

namespace deliverd::spool {

Result<SpoolCleanup> SpoolFile::cleanup() {
    TRY_ASSIGN(auto work, begin_work());
    const std::int64_t now = now_ms();
    // Looks first: a replacement copies the whole file, and most cleanups find nothing.
    bool any = false;
    const auto look = [&](const SpoolEntry& entry) {
        any = any || is_over(entry, now);
        return true;
    };
    TRY_ASSIGN(const auto scanned, scan(look, {}));
    if (!any && scanned.rejects == 0) return SpoolCleanup{scanned.entries, 0, work.rejected};
    const auto decide = [now](const LinePosition&, const SpoolEntry& entry) -> Result<Decision> {
        return Decision{is_over(entry, now) ? Fate::drop : Fate::keep};
    };
    TRY_ASSIGN(const auto report, replace(work, decide));
    return SpoolCleanup{report.kept, report.removed, work.rejected + report.rejected};
}

Result<SpoolChange> SpoolFile::change(std::span<const std::string> job_ids,
                                      const std::function<bool(const SpoolEntry&)>& concerns,
                                      const std::function<std::string(const SpoolEntry&)>& new_line) {
    TRY_ASSIGN(auto work, begin_work());
    std::vector<std::string> wanted(job_ids.begin(), job_ids.end());
    std::ranges::sort(wanted);  // both may be many: the ids, and the lines that are compared with them
    const auto changes = [&](const SpoolEntry& entry) {
        return concerns(entry) && std::ranges::binary_search(wanted, entry.job_id);
    };
    bool any = false;
    const auto look = [&](const SpoolEntry& entry) {
        any = changes(entry);
        return !any;
    };
    TRY(scan(look, {}));
    SpoolChange change{{}, work.rejected};
    if (!any) return change;
    const auto decide = [&](const LinePosition&, const SpoolEntry& entry) -> Result<Decision> {
        if (!changes(entry)) return Decision{};
        change.job_ids.push_back(entry.job_id);
        return Decision{Fate::replace, new_line(entry)};
    };
    TRY_ASSIGN(const auto report, replace(work, decide));
    change.rejected += report.rejected;
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
