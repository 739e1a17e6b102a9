// Reads the dead-letter topics into the store.
//
//   poll ─▶ letters ─▶ one transaction ─▶ commit of the offsets
//
// The next batch is read while one is stored. At most one batch is read ahead, and none when a commit is due, because a
// commit covers everything that was read.
//
// Nothing is committed that is not stored. After a crash, a lost commit or a rebalance records are read again, and the
// store keeps each once. While the store is away the source is paused but still polled, so that the group keeps its
// member, and the same batch is tried until it is stored.
//
// A record that the store refuses for what it is (codes::kLetterRefused) is stored without the refused part, but only
// after it was refused whole and alone kSureAfter times in a row. Every other failure is the store's: it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/random.h"
#include "deadletter/new_letter.h"
#include "deadletter/ports.h"
#include "message/retry_policy.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Called from the ingest's thread, one call at a time.
class IngestObserver {
public:
    virtual ~IngestObserver() = default;
    virtual void on_stored(std::size_t /*fresh*/, std::size_t /*duplicates*/, Duration /*took*/) {}  // per batch
    virtual void on_store_failed(ErrorClass /*error_class*/) {}                                      // per call
    virtual void on_truncated(std::size_t /*records*/) {}
    virtual void on_reduced() {}             // a refused record was stored without some of it
    virtual void on_paused(bool /*yes*/) {}  // the store is away, or back
    virtual void on_committed(bool /*ok*/) {}
    virtual void on_lag(std::int64_t /*records*/) {}  // RecordSource::lag(), where it is known
    virtual void on_reachable(bool /*yes*/) {}        // RecordSource::reachable(), as often as the lag
    virtual void on_failed() {}                       // it has ended by itself: Ingest::failure()
};

struct IngestOptions {
    std::size_t max_records = 1000;             // per batch
    std::size_t max_bytes = 8UL * 1024 * 1024;  // per batch, about
    std::size_t max_value_bytes = 1024UL * 1024;
    Duration poll_wait = std::chrono::milliseconds(500);
    Duration commit_every = std::chrono::milliseconds(200);  // and whenever nothing came
    Duration commit_deadline = std::chrono::seconds(5);
    Duration lag_every = std::chrono::seconds(5);
    /// Between attempts while the store is away: 0.2, 0.4, … 10 s.
    RetryPolicy backoff{.base_seconds = 0.2, .cap_seconds = 10, .jitter = 0.2};
};

class Ingest {
public:
    /// How often a continuing outage is logged.
    static constexpr Duration kComplainEvery = std::chrono::seconds(30);
    /// Refusals of a letter before the store is believed: what was wrong with the store may have ended meanwhile.
    static constexpr int kSureAfter = 2;
    /// After this many outages in the middle of it, a refusal is believed without another attempt.
    static constexpr int kMaxInterruptions = 3;

    /// All of them outlive it.
    Ingest(IngestOptions options, RecordSource& source, store::DeadLetters& letters, const Clock& clock, Random& random,
           IngestObserver& observer, Log& log);
    ~Ingest();  // stop(), and waits however long it takes
    Ingest(const Ingest&) = delete;
    Ingest& operator=(const Ingest&) = delete;

    /// Starts the thread. Once.
    void start();

    /// Wakes the source, lets the call under way end, stores what was read meanwhile, commits, and joins the thread.
    /// What is not stored is read again by the next process. Blocks for `deadline` at most; false when it has not ended
    /// by then (a store call takes as long as the store allows; commit() as IngestOptions says). Idempotent.
    bool stop(Duration deadline);

    /// Why it ended by itself: the source cannot work. None while it runs. Thread-safe.
    [[nodiscard]] std::optional<Error> failure() const;

    /// One round on the calling thread, instead of start(): for tests and simulators. False when it has ended.
    bool step();

private:
    [[nodiscard]] bool ending() const;
    void run();
    bool take();
    void add(std::vector<Record> records);
    [[nodiscard]] std::vector<store::NewLetter> letters_of(std::vector<Record> records);
    [[nodiscard]] bool commit_is_due() const;
    [[nodiscard]] bool reads_on() const;
    [[nodiscard]] Result<std::int64_t> store_and_read_on(std::span<const store::NewLetter> letters);
    bool keep_membership();
    void fail(Error error);
    void store_batch();
    bool store_part();
    bool store_reduced();
    [[nodiscard]] static bool is_refusal(const Error& error);
    void start_over();
    void count(std::size_t letters, std::int64_t fresh, Instant since);
    void hold(const Error& error);
    void batch_done();
    void commit();
    void look_at_lag();

    const IngestOptions options_;
    RecordSource& source_;
    store::DeadLetters& letters_;
    const Clock& clock_;
    Random& random_;
    IngestObserver& observer_;
    Log& log_;

    // Used only by the thread that steps.
    std::vector<store::NewLetter> batch_;
    std::vector<store::NewLetter> ahead_;  // read while batch_ was stored; stored next
    std::size_t at_ = 0;                   // first letter that is not stored
    std::size_t part_ = 0;                 // letters in the next attempt
    std::optional<Error> refusal_;         // last refusal of that first letter, alone and whole
    int refusals_ = 0;                     // … in a row
    int interruptions_ = 0;                // outages before a reduced letter could be stored
    std::size_t reductions_ = 0;           // reductions that were refused as well
    bool uncommitted_ = false;
    bool paused_ = false;
    std::int32_t failures_ = 0;  // since the last success
    Instant next_try_{};
    Instant complained_{};
    Instant committed_at_{};
    Instant looked_at_lag_{};

    mutable Mutex mutex_;
    Condition changed_;
    bool ending_ GUARDED_BY(mutex_) = false;
    bool ended_ GUARDED_BY(mutex_) = false;
    std::optional<Error> failure_ GUARDED_BY(mutex_);
    std::thread thread_;
};

}  // namespace deliverd::deadletter
