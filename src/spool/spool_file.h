// The implementation of deliverd/spool.h on given system calls, clock and randomness.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "deliverd/spool.h"
#include "spool/files.h"
#include "spool/journal.h"
#include "spool/rewrite.h"

namespace deliverd::spool {

/// Failure: `bad_argument`.
[[nodiscard]] Result<void> check_options(const SpoolOptions& options);
/// A name that job ids may begin with.
[[nodiscard]] bool is_spool_name(std::string_view name);

class SpoolFile : public Spool {
public:
    /// The options have been checked; `files`, `clock` and `random` must outlive this object.
    SpoolFile(SpoolOptions options, Files& files, const Clock& clock, Random& random);

    Result<SpoolEntry> add(const NewSpoolEntry& given) override;
    Result<SpoolScan> each(const std::function<bool(const SpoolEntry&)>& entry,
                           const std::function<void(const SpoolReject&)>& reject) override;
    Result<std::optional<SpoolEntry>> find(std::string_view job_id) override;
    Result<std::vector<SpoolEntry>> due(std::int64_t limit) override;
    Result<SpoolSummary> retry(const SpoolSender& sender, const SpoolRetryOptions& options) override;
    Result<SpoolCleanup> cleanup() override;
    Result<SpoolChange> resolve(std::span<const std::string> job_ids) override;
    Result<SpoolChange> revive(std::span<const std::string> job_ids) override;
    Result<SpoolHandedOver> hand_over(const SpoolHandOver& order) override;
    Result<std::vector<SpoolReturned>> put_back(std::span<const SpoolReturn> entries) override;

private:
    /// The open file and the lock that allows changing its entries.
    struct Work {
        File lock;
        File file;
        std::int64_t recovered = 0;
        std::int64_t rejected = 0;  // while the journal was recorded
    };
    /// An entry to be sent.
    struct Due {
        std::int64_t next_retry_ms = 0;
        std::int64_t offset = 0;
        auto operator<=>(const Due&) const = default;
    };
    struct DueEntries {
        std::vector<Due> due;  // in the order of sending
        std::int64_t rejects = 0;
        std::int64_t unmarked = 0;
        bool more = false;
    };

    [[nodiscard]] std::int64_t now_ms() const;
    /// Starts every operation: links may have changed since the last one.
    Result<void> find_file();
    Result<File> open_to_read() const;
    Result<SpoolScan> scan(const std::function<bool(const SpoolEntry&)>& entry,
                           const std::function<void(const SpoolReject&)>& reject);
    Result<Work> begin_work();
    /// Refuses a file with two names: after a replacement the other name would still have the old file.
    Result<void> check_links(int file);
    Result<void> append(const std::string& line);
    Result<void> write_end(int file, const std::string& line, std::int64_t size);
    int remove_journal();
    Result<RewriteReport> replace(const Work& work, const Decide& decide);
    /// Writes the journal's results into the file, with one replacement.
    Result<RewriteReport> record(Work& work, Journal journal);
    /// The file's size while no process was appending: an append that fails is undone.
    Result<std::int64_t> settled_end(int file);
    /// Up to `end`.
    Result<DueEntries> find_due(int file, std::int64_t limit, std::int64_t end);
    Result<SpoolEntry> entry_at(int file, std::int64_t offset);
    /// Changes the entries with these ids for which `concerns` is true, with one replacement of the file.
    Result<SpoolChange> change(std::span<const std::string> job_ids,
                               const std::function<bool(const SpoolEntry&)>& concerns,
                               const std::function<std::string(const SpoolEntry&)>& new_line);
    struct TakenEntries;  // by a hand_over()
    Result<void> give_all(const Work& work, const SpoolHandOver& order, TakenEntries& taken);
    /// False: the sender was interrupted, and the entry is unchanged.
    Result<bool> attempt(int file, const Due& due, const SpoolSender& sender, JournalWriter& journal,
                         SpoolSummary& summary);

    const SpoolOptions options_;
    Place place_;  // found again by each operation
    Files& files_;
    const Clock& clock_;
    Random& random_;
};

}  // namespace deliverd::spool
