// SpoolFile: hands entries over to another store, and takes them back.
#include <algorithm>
#include <map>
#include <utility>

#include "base/try.h"
#include "spool/entry.h"
#include "spool/line_reader.h"
#include "spool/spool_file.h"

namespace deliverd::spool {

/// Every wanted entry before `end` was taken, except those at `refused`.
struct SpoolFile::TakenEntries {
    std::int64_t count = 0;
    std::int64_t end = 0;
    std::vector<std::int64_t> refused;  // offsets, ascending
    [[nodiscard]] bool has(std::int64_t offset) const {
        return offset < end && !std::ranges::binary_search(refused, offset);
    }
};

namespace {

/// Entries that are handed over together, with their offsets.
struct Batch {
    std::vector<SpoolEntry> entries;
    std::vector<std::int64_t> offsets;
    std::size_t bytes = 0;
    [[nodiscard]] bool is_full() const { return entries.size() >= kSpoolBatch || bytes >= kSpoolBatchBytes; }
};

/// The result of putting `wanted` back, given an entry with its job id.
SpoolReturned answer_of(const SpoolEntry& entry, const SpoolReturn& wanted) {
    if (entry.revived_from == wanted.receipt) return SpoolReturned::before;
    switch (entry.state) {
        case SpoolState::resolved:
            return SpoolReturned::resolved;
        case SpoolState::pending:
        case SpoolState::retrying:
            return SpoolReturned::pending;
        case SpoolState::exhausted:
            break;
    }
    // Without a receipt, the taker died before the receipt was in the file.
    const bool is_it = entry.dead_letter ? *entry.dead_letter == wanted.receipt : entry.json == wanted.line;
    return is_it ? SpoolReturned::revived : SpoolReturned::again;
}

}  // namespace

Result<void> SpoolFile::give_all(const Work& work, const SpoolHandOver& order, TakenEntries& taken) {
    TRY_ASSIGN(const auto end, settled_end(work.file.get()));
    LineReader reader(files_, work.file.get(), place_.path, {.end = end});
    Batch batch;
    const auto give = [&]() -> Result<void> {
        if (batch.entries.empty()) return {};
        TRY_ASSIGN(const auto refused, order.take(batch.entries));
        for (const std::size_t number : refused) taken.refused.push_back(batch.offsets.at(number));
        std::ranges::sort(taken.refused);
        taken.count += static_cast<std::int64_t>(batch.entries.size() - refused.size());
        taken.end = batch.offsets.back() + 1;
        batch = {};
        return {};
    };
    while (true) {
        TRY_ASSIGN(const auto line, reader.next());
        if (!line) return give();
        auto entry = read_line(*line);
        if (!entry || !order.wanted(*entry)) continue;
        batch.offsets.push_back(line->at.offset);
        batch.bytes += entry->json.size();
        batch.entries.push_back(std::move(*entry));
        if (!batch.is_full()) continue;
        TRY(give());
        if (order.should_stop && order.should_stop()) return {};
    }
}

Result<SpoolHandedOver> SpoolFile::hand_over(const SpoolHandOver& order) {
    TRY_ASSIGN(auto work, begin_work());
    TakenEntries taken;
    const auto given = give_all(work, order, taken);
    SpoolHandedOver report{taken.count, static_cast<std::int64_t>(taken.refused.size()), work.rejected};
    if (taken.count > 0) {
        const auto decide = [&](const LinePosition& at, const SpoolEntry& entry) -> Result<Decision> {
            if (!taken.has(at.offset) || !order.wanted(entry)) return Decision{};
            if (!order.receipt) return Decision{Fate::drop};
            return Decision{Fate::replace, marked_line(entry, order.receipt(entry))};
        };
        TRY_ASSIGN(const auto replaced, replace(work, decide));
        report.rejected += replaced.rejected;
    }
    TRY(given);
    return report;
}

Result<std::vector<SpoolReturned>> SpoolFile::put_back(std::span<const SpoolReturn> entries) {
    auto work = begin_work();
    const bool is_there = work || work.error().code != codes::kSpoolMissing;
    if (!work && is_there) return Failure(work.error());
    std::multimap<std::string_view, std::size_t> wanted;
    for (std::size_t i = 0; i < entries.size(); ++i) wanted.emplace(entries[i].job_id, i);
    /// Notes the answers; returns the request that revives this entry, if any.
    std::vector<SpoolReturned> answers(entries.size(), SpoolReturned::gone);
    const auto look = [&](const SpoolEntry& entry) -> const SpoolReturn* {
        const SpoolReturn* revived = nullptr;
        const auto [first, last] = wanted.equal_range(entry.job_id);
        for (auto at = first; at != last; ++at) {
            const SpoolReturned answer = answer_of(entry, entries[at->second]);
            // Of several lines with one id the best answer counts: the enum is in that order.
            answers[at->second] = std::min(answers[at->second], answer);
            if (answer == SpoolReturned::revived) revived = &entries[at->second];
        }
        return revived;
    };
    bool any = false;
    const auto note_all = [&](const SpoolEntry& entry) {
        any = look(entry) != nullptr || any;
        return true;
    };
    if (is_there) TRY(scan(note_all, {}));
    const std::int64_t now = now_ms();
    if (any) {
        const auto decide = [&](const LinePosition&, const SpoolEntry& entry) -> Result<Decision> {
            const SpoolReturn* revived = look(entry);
            if (revived == nullptr) return Decision{};
            return Decision{Fate::replace, revived_line(entry, now, revived->receipt)};
        };
        TRY(replace(*work, decide));
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (answers[i] != SpoolReturned::gone || !entries[i].add_if_gone) continue;
        const auto entry = parse_entry(entries[i].line);
        if (!entry) continue;
        TRY(append(revived_line(*entry, now, entries[i].receipt)));
        answers[i] = SpoolReturned::revived;
    }
    return answers;
}

}  // namespace deliverd::spool
