// Reads the dead-letter topics into the store.
//
//   poll ─▶ letters ─▶ one transaction ─▶ commit of the offsets
//
// While one batch is stored the next one is read, so that the store does not wait for what is not its work; it is one
// batch at most, and none when a commit is due, which covers everything that was read.
//
// A record that the store refuses for what it is (store::kLetterRefused) is stored without what it refuses, but only
// after it was refused whole and alone kSureAfter times in a row. Every other failure is the store's: it waits.
//
// Nothing is committed that is not stored. A crash, a lost commit or a rebalance makes records be read again, and the
// store keeps each once. While the store is away the source is paused and polled on, so that the group keeps its
// member, and the same batch is tried until it is stored.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "deadletter/new_letter.h"
#include "deadletter/ports.h"
#include "message/retry_policy.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Told from the ingest's thread, one call at a time.
class IngestObserver {
public:
    virtual ~IngestObserver() = default;
    virtual void on_stored(std::size_t /*fresh*/, std::size_t /*duplicates*/, Duration /*took*/) {}  // each batch
    virtual void on_store_failed(ErrorClass /*error_class*/) {}                                      // each call
    virtual void on_truncated(std::size_t /*records*/) {}
    virtual void on_reduced() {}             // a record that the store refused was stored without some of it
    virtual void on_paused(bool /*yes*/) {}  // the store is away, or back
    virtual void on_committed(bool /*ok*/) {}
    virtual void on_lag(std::int64_t /*records*/) {}  // RecordSource::lag(), where it is known
    virtual void on_reachable(bool /*yes*/) {}        // RecordSource::reachable(), as often as the lag
    virtual void on_failed() {}                       // it has ended by itself: Ingest::failure()
};

struct IngestOptions {
    std::size_t max_records = 1000;             // of a batch
    std::size_t max_bytes = 8UL * 1024 * 1024;  // of a batch, about
    std::size_t max_value_bytes = 1024UL * 1024;
    Duration poll_wait = std::chrono::milliseconds(500);
    Duration commit_every = std::chrono::milliseconds(200);  // and whenever nothing came
    Duration commit_deadline = std::chrono::seconds(5);
    Duration lag_every = std::chrono::seconds(5);
    /// Between tries while the store is away: 0.2, 0.4, … 10 s.
    RetryPolicy backoff{.base_seconds = 0.2, .cap_seconds = 10, .jitter = 0.2};
};

class Ingest {
public:
    /// An outage that goes on is told again so often.
    static constexpr Duration kComplainEvery = std::chrono::seconds(30);
    /// So often a letter is refused before the store is believed: what was wrong with the store may have ended since.
    static constexpr int kSureAfter = 2;
    /// After so many outages in the middle of it, a refusal is believed without being asked for again.
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
    /// What is not stored is read again by whoever comes next. Blocks for `deadline` at most; false when it has not
    /// ended by then (a call of the store takes as long as the store allows; commit() as IngestOptions says).
    /// Idempotent.
    bool stop(Duration deadline);

    /// Why it ended by itself: the source cannot work. None while it runs. Thread-safe.
    [[nodiscard]] std::optional<Error> failure() const;

    /// One round on the calling thread, in place of start(): for tests and simulators. False when it has ended.
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

    // Of the thread that steps.
    std::vector<store::NewLetter> batch_;
    std::vector<store::NewLetter> ahead_;  // read while batch_ was stored; its turn is next
    std::size_t at_ = 0;                   // the first one that is not stored
    std::size_t part_ = 0;                 // so many are tried next
    std::optional<Error> refusal_;         // the last one of the first letter, alone and whole …
    int refusals_ = 0;                     // … so often in a row
    int interruptions_ = 0;                // an outage came before what is left of it could be stored
    std::size_t reductions_ = 0;           // so many were refused as well
    bool uncommitted_ = false;
    bool paused_ = false;
    std::int32_t failures_ = 0;  // since the last success
    Instant next_try_{};
    Instant complained_{};
    Instant committed_at_{};
    Instant looked_at_lag_{};

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool ending_ = false;
    bool ended_ = false;
    std::optional<Error> failure_;
    std::thread thread_;
};

}  // namespace deliverd::deadletter
