// A dead-letter queue in one JSON Lines file, for places without a database (docs/spool.md).
//
// Each failed webhook is added as one line. `retry` sends the entries that are due, with waits that double from one
// minute to one hour, five attempts in all. `cleanup` removes old resolved and exhausted entries.
//
//     auto spool = deliverd::open_spool({.path = "hooks.jsonl"});
//     spool->add({.endpoint = "https://example.com/hooks", .payload = R"({"id":7})", .error = {"timeout"}});
//     auto summary = spool->retry([](const deliverd::SpoolPost& post) { return my_post(post); });
//
// Durability: when add() returns, the entry is on the disk. A change of entries goes into a new file that replaces the
//   old one. If a process dies at any moment, either the old or the new file remains, and no entry is lost or
//   duplicated.
// Processes: any number may use one file at once. FILE.lock makes appends take turns, FILE.work.lock the runs that
//   change entries (all but add, each, find and due); appends do not wait for those, but for a moment at their end.
//   Another program that appends must hold flock(2) on FILE.lock.
// Unreadable lines: a last line without its end, as a crash leaves it, is ended by the next add(). Any other line that
//   is no entry is left out by each(), and moved to FILE.rejected by the next run that changes entries.
// Threads: one Spool is used by one thread at a time; several Spools of one file work together like processes.
// Blocking: add() waits for other appends, SpoolOptions::lock_wait_seconds at most; the runs wait for each other,
//   work_wait_seconds at most, and read the file from end to end. Memory does not grow with the file.
// Failure: an Error; the file is then as it was. No exceptions. Codes:
//   permanent: `bad_argument`, `payload_too_large`, `spool_missing`, `spool_linked` (it has hard links),
//     `spool_unsafe` (a link, or a third user's file, where a run would write or believe what it reads),
//     `spool_replaced` (somebody removed or replaced it, or a lock, during the run: what was sent is not recorded);
//   retryable: `spool_busy` (nothing was begun), `spool_stuck` (somebody held FILE.lock for all of the wait at the end
//     of a run; the next one records it), `io_error` (ambiguous where nobody knows whether it is on the disk).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd {

enum class SpoolState { pending, retrying, exhausted, resolved };

[[nodiscard]] constexpr std::string_view to_string(SpoolState state) noexcept {
    constexpr std::array<std::string_view, 4> kNames{"pending", "retrying", "exhausted", "resolved"};
    return kNames[static_cast<std::size_t>(state)];
}

/// What went wrong last.
struct SpoolFault {
    std::string message{};
    std::optional<std::string> code{};  // an HTTP status or an error's code
};

inline constexpr std::int32_t kSpoolMaxAttempts = 5;
/// A longer line is not read. add() refuses an entry whose line might grow to that by being updated.
inline constexpr std::size_t kMaxSpoolLineBytes = std::size_t{4} << 20;
inline constexpr std::size_t kSpoolLineRoom = 8192;
/// Entries that one retry() sends at most; `SpoolSummary::more_due` says that there are others.
inline constexpr std::int64_t kMaxSpoolRun = 500'000;

struct NewSpoolEntry {
    std::string endpoint{};          // http:// or https://
    std::string payload = "null";    // any JSON; goes out again as it is written
    SpoolFault error{};              // of the attempt that failed
    std::int32_t attempts_made = 0;  // before that one
    std::int32_t max_attempts = kSpoolMaxAttempts;
    std::string job_id{};  // empty: one is made
};

/// One line of the file. Times are Unix milliseconds.
struct SpoolEntry {
    std::string job_id;
    std::string endpoint;
    std::string payload;  // data.hook as it is written; "null" where there is none
    std::int64_t attempts_made = 0;
    std::int64_t max_attempts = kSpoolMaxAttempts;
    std::int64_t timestamp_ms = 0;  // of the first failure
    std::int64_t next_retry_ms = 0;
    SpoolFault error;
    SpoolState state = SpoolState::pending;
    std::optional<std::int64_t> resolved_at_ms;
    std::optional<std::string> dead_letter;   // the receipt it was handed over for, and is exhausted since
    std::optional<std::string> revived_from;  // the receipt it was put back for
    std::string json;                         // the whole line, with what else is in it
};

/// A line that is no entry.
struct SpoolReject {
    std::int64_t line = 0;  // from 1
    std::string reason;
    bool torn = false;  // the last one, without its end: a crash, or a writer that is not done yet
};

struct SpoolScan {
    std::int64_t entries = 0;
    std::int64_t rejects = 0;
};

/// One request: POST `body` as application/json.
struct SpoolPost {
    std::string_view job_id;
    std::string_view endpoint;
    std::string_view body;  // the payload with "idempotencyKey": job_id
};

struct SpoolAnswer {
    bool delivered = false;  // any 2xx
    SpoolFault error{};
    double wait_seconds = 0;  // what the receiver asked for (Retry-After); capped at 30 days
    bool cut_short = false;   // nobody waited for the answer: no attempt, and the run ends
};

/// May take as long as it likes; an exception is a failed attempt.
using SpoolSender = std::function<SpoolAnswer(const SpoolPost& post)>;

struct SpoolSummary {
    std::int64_t total = 0;  // attempts of this run: the sum of the next three
    std::int64_t resolved = 0;
    std::int64_t failed = 0;     // to be tried again later
    std::int64_t exhausted = 0;  // that was the last attempt
    std::int64_t recovered = 0;  // attempts of an earlier run that died, recorded now
    std::int64_t rejected = 0;   // lines moved to FILE.rejected
    std::int64_t unmarked = 0;   // entries of the file that are exhausted now and have no receipt
    bool more_due = false;
};

struct SpoolRetryOptions {
    std::int64_t limit = kMaxSpoolRun;
    std::function<bool()> should_stop{};  // asked before each attempt; what was done is recorded
    /// After each attempt, with the number of those that will be made.
    std::function<void(const SpoolSummary& so_far, std::int64_t of)> progress{};
};

struct SpoolCleanup {
    std::int64_t kept = 0;
    std::int64_t removed = 0;
    std::int64_t rejected = 0;
};

/// What resolve() or revive() changed.
struct SpoolChange {
    std::vector<std::string> job_ids;  // of the entries that changed
    std::int64_t rejected = 0;         // lines moved to FILE.rejected
};

/// Entries that hand_over() gives at once, and about how many bytes of them.
inline constexpr std::size_t kSpoolBatch = 500;
inline constexpr std::size_t kSpoolBatchBytes = std::size_t{4} << 20;

/// How to give entries to somebody else, such as a database, who keeps them from now on.
struct SpoolHandOver {
    std::function<bool(const SpoolEntry&)> wanted{};  // always the same answer for the same entry
    /// Stores the entries durably before it returns. It may get an entry again, so it must store each only once.
    /// Returns the indexes of the entries that it refuses because of their content; these do not change. A failure ends
    /// the run.
    std::function<Result<std::vector<std::size_t>>(std::span<const SpoolEntry>)> take{};
    /// The entry's name in its new place, always the same for the same entry. It is stored in the entry as
    /// `deadLetter`. Without this function, entries that were taken are removed from the file.
    std::function<std::string(const SpoolEntry&)> receipt{};
    std::function<bool()> should_stop{};  // asked before each batch
};

struct SpoolHandedOver {
    std::int64_t taken = 0;
    std::int64_t refused = 0;
    std::int64_t rejected = 0;  // lines moved to FILE.rejected
};

/// An entry that was handed over, to be sent again.
struct SpoolReturn {
    std::string job_id{};
    std::string receipt{};
    std::string line{};  // as it was handed over
    bool add_if_gone = false;
};

enum class SpoolReturned {
    revived,   // pending and due at once, with no attempts made
    before,    // it was put back for that receipt already
    resolved,  // dealt with meanwhile
    pending,   // it is to be sent anyway
    again,     // exhausted once more since, and handed over for another receipt
    gone,      // not in the file
};

struct SpoolOptions {
    std::string path{};
    std::string name = "hook";  // what job ids begin with: letters, digits, "-", "_", "."
    double lock_wait_seconds = 30;
    double work_wait_seconds = 60;
};

class Spool {
public:
    virtual ~Spool() = default;

    /// Stores the failure of an attempt: one more attempt made, the next one after spool_delay_ms(), or `exhausted`
    /// when that was the last. Makes the file, not its folder. Costs the same however large the file is.
    virtual Result<SpoolEntry> add(const NewSpoolEntry& entry) = 0;

    /// Every entry in the file's order, without changing anything; `entry` ends it by answering false. `reject` (may be
    /// empty) is called for every line that is no entry.
    virtual Result<SpoolScan> each(const std::function<bool(const SpoolEntry&)>& entry,
                                   const std::function<void(const SpoolReject&)>& reject) = 0;

    /// The first with that id, if any.
    virtual Result<std::optional<SpoolEntry>> find(std::string_view job_id) = 0;

    /// What a retry would send now, in its order: pending, attempts left, time come. At most `limit`.
    virtual Result<std::vector<SpoolEntry>> due(std::int64_t limit = 1000) = 0;

    /// Sends what is due, in order of nextRetry, and records all of it with one replacement of the file. Two runs never
    /// send one entry twice. Each answer is noted in FILE.journal before the next one is sent: a run that dies is
    /// recorded by the next one, and only the entry it was sending goes out again, with the same idempotency key.
    virtual Result<SpoolSummary> retry(const SpoolSender& sender, const SpoolRetryOptions& options = {}) = 0;

    /// Removes `resolved` entries 24 hours after they were resolved, and `exhausted` ones 7 days after their nextRetry,
    /// which is then the time of the last failure.
    virtual Result<SpoolCleanup> cleanup() = 0;

    /// Marks these as resolved.
    virtual Result<SpoolChange> resolve(std::span<const std::string> job_ids) = 0;

    /// Exhausted entries become pending again, due at once, with no attempts made.
    virtual Result<SpoolChange> revive(std::span<const std::string> job_ids) = 0;

    /// Gives entries away in the file's order, and then removes or marks them, with one replacement of the file. What
    /// was taken before a failure or a stop is removed or marked. If the process dies before that, the next run gives
    /// the same entries again.
    virtual Result<SpoolHandedOver> hand_over(const SpoolHandOver& order) = 0;

    /// Takes entries back that were handed over; one answer each. Safe to repeat: an entry remembers the receipt it was
    /// put back for. If the entry is gone and the caller asks for it, the entry is added again; the result is then
    /// `revived`.
    virtual Result<std::vector<SpoolReturned>> put_back(std::span<const SpoolReturn> entries) = 0;
};

/// Opens nothing yet. Failure: `bad_argument` for a path or a name that cannot be.
[[nodiscard]] Result<std::unique_ptr<Spool>> open_spool(SpoolOptions options);

/// The wait before the attempt after the `attempt`-th failure (1 and up; less counts as 1):
/// min(60 s * 2^(attempt-1) + jitter * 30 s, 1 h), in milliseconds. `jitter` in [-1, 1].
[[nodiscard]] double spool_delay_ms(std::int32_t attempt, double jitter);

}  // namespace deliverd
