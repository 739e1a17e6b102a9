// The file spool (deliverd/spool.h) over the calls, clock and randomness it is given.
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

class SpoolFile final : public Spool {
public:
    /// The options are checked; `files`, `clock` and `random` outlive it.
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
    /// The file and the right to change its entries.
    struct Work {
        File lock;
        File file;
        std::int64_t recovered = 0;
        std::int64_t rejected = 0;  // by recording that
    };
    /// An entry to be sent.
    struct Due {
        std::int64_t next_retry_ms = 0;
        std::int64_t offset = 0;
        auto operator<=>(const Due&) const = default;
    };
    struct Found {
        std::vector<Due> due;  // in the order of sending
        std::int64_t rejects = 0;
        std::int64_t unmarked = 0;
        bool more = false;
    };

    [[nodiscard]] std::int64_t now_ms() const;
    /// First of all: links may have changed since the last operation.
    Result<void> find_file();
    Result<File> open_to_read() const;
    Result<SpoolScan> scan(const std::function<bool(const SpoolEntry&)>& entry,
                           const std::function<void(const SpoolReject&)>& reject);
    Result<Work> begin_work();
    /// A file with two names cannot be replaced: one of them would keep the old one.
    Result<void> check_links(int file);
    Result<void> append(const std::string& line);
    Result<void> write_end(int file, const std::string& line, std::int64_t size);
    int remove_journal();
    Result<RewriteReport> replace(const Work& work, const Decide& decide);
    /// Puts what the journal has into the file, with one replacement of it; none where it has nothing.
    Result<RewriteReport> record(Work& work, Journal journal);
    /// The end of what is certainly there: nobody was appending, and an append that fails is taken back.
    Result<std::int64_t> settled_end(int file);
    /// Up to `end`.
    Result<Found> find_due(int file, std::int64_t limit, std::int64_t end);
    Result<SpoolEntry> entry_at(int file, std::int64_t offset);
    /// Changes the entries of these ids that `concerns` is true of, with one replacement of the file; answers whose.
    Result<SpoolChange> change(std::span<const std::string> job_ids,
                               const std::function<bool(const SpoolEntry&)>& concerns,
                               const std::function<std::string(const SpoolEntry&)>& new_line);
    struct Taken;  // by a hand_over()
    Result<void> give_all(const Work& work, const SpoolHandOver& order, Taken& taken);
    /// False: the sender was cut short, and the entry is as it was.
    Result<bool> attempt(int file, const Due& due, const SpoolSender& sender, JournalWriter& journal,
                         SpoolSummary& summary);

    const SpoolOptions options_;
    Place place_;  // found anew by each operation
    Files& files_;
    const Clock& clock_;
    Random& random_;
};

}  // namespace deliverd::spool
