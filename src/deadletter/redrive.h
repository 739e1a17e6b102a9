// One redrive: a retry of all letters of a topic that can be retried. Reading, publishing and recording overlap.
//
//   the caller's thread          publisher                       recorder
//   next_of_redrive() ─ pages ─▶ publish() of all at hand ─▶ end_of_redrive_page() of all at hand
//
// Each takes everything that waits for it, so that the slowest sets the pace and the records keep the letters' order.
// The reader begins up to `pages_at_once` pages in one transaction, because the wait for the disk is the same for one
// page of 100 letters and for eight. What is begun and not recorded when the process dies is taken over and may be
// published twice: `pages_in_flight` and kMaxRedriveBytes bound that. Every page that was begun is brought to its end.
//
// When the broker confirms nothing of a whole batch, the redrive stops. A topic that is missing or forbidden is no
// outage: its letters are skipped without being begun, and the other topics continue.
//
// A redrive that a person waits for ends with an answer when the broker is away. Nobody is waiting for a resumed one:
// it is left unfinished and resumed again once a broker answers. The process that resumes it starts over from the first
// letter and leaves out what it has tried: the position says what was read, and letters that were given back behind it,
// or begun by a process that died, would be skipped otherwise. That costs one walk over the topic's index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "deadletter/batch_sender.h"
#include "deadletter/reports.h"

namespace deliverd::deadletter {

struct RedriveRequest {
    std::string topic;
    std::string owner;  // unique to this run
    std::string actor;
    std::function<std::string(const store::LetterDetail&)> refusal;  // why a letter is not sent; empty: it is
    bool ends_when_stopped = false;                                  // permanently: no process may resume it
    bool resumed = false;                                            // another process began it
};

class RedriveRun {
public:
    /// `opened` is the owner's.
    RedriveRun(const RetryServices& services, RedriveRequest request, store::Redrive opened);

    /// Blocks until everything was tried, the redrive had to stop, or the gate is closed. Closes the redrive when all
    /// was tried or nothing could be; a resumed one only when all was tried. Starts two threads and joins them. Once.
    RedriveReport run();

    // What run() does on its threads, one step at a time, for a simulator. No step waits for another. One that has
    // ended is not made again; when all three have, finish() ends the redrive.
    enum class Step { done, waiting, ended };
    Step read_step();
    Step publish_step();
    Step record_step();
    [[nodiscard]] RedriveReport finish();

    /// As it was when this run began.
    [[nodiscard]] const store::Redrive& opened() const { return opened_; }

private:
    /// Memory that letters between two steps take.
    struct Load {
        std::size_t pages = 0;
        std::size_t bytes = 0;
        Load& operator+=(const Load& other);
        Load& operator-=(const Load& other);
    };
    struct Counts {
        std::int64_t begun = 0;
        std::int64_t published = 0;
        std::int64_t failed = 0;
        std::int64_t in_doubt = 0;
        std::int64_t not_tried = 0;
    };
    /// Limits of the next page.
    struct Room {
        std::int32_t letters = 0;
        std::int64_t bytes = 0;
        std::vector<std::string> skipped_topics{};
    };

    void repeat(Step (RedriveRun::*step)()) EXCLUDES(mutex_);
    /// None while as much is in flight as may be.
    [[nodiscard]] std::optional<Room> room() const REQUIRES(mutex_);
    [[nodiscard]] Result<RetryBatch> begin_page(const Room& room);
    bool read_page(const Room& room) EXCLUDES(mutex_);
    void review(std::span<const Record> records, std::span<Outcome> outcomes) EXCLUDES(mutex_);
    void skip_topics(std::span<const Record> records, std::span<Outcome> outcomes) EXCLUDES(mutex_);
    void record(const std::vector<store::RetryEnd>& ends) EXCLUDES(mutex_);
    /// No further page is begun. `publish_none`: what was begun is not published any more. The step notifies.
    void end_early(std::string problem, bool publish_none) EXCLUDES(mutex_);
    void count(const std::vector<store::RetryEnd>& ends) EXCLUDES(mutex_);
    void close(RedriveReport& report);
    void notify() REQUIRES(mutex_);

    const RetryServices services_;
    const RedriveRequest request_;
    const store::Redrive opened_;
    BatchSender sender_;

    mutable Mutex mutex_;
    Condition changed_;
    std::uint64_t changes_ GUARDED_BY(mutex_) = 0;
    std::vector<RetryBatch> begun_ GUARDED_BY(mutex_);  // in the letters' order
    Load begun_load_ GUARDED_BY(mutex_);
    std::vector<store::RetryEnd> ended_ GUARDED_BY(mutex_);
    Load ended_load_ GUARDED_BY(mutex_);
    Load in_flight_ GUARDED_BY(mutex_);              // begun and not recorded
    bool all_read_ GUARDED_BY(mutex_) = false;       // no further page comes
    bool all_published_ GUARDED_BY(mutex_) = false;  // nor any further end
    bool ends_early_ GUARDED_BY(mutex_) = false;
    bool publish_none_ GUARDED_BY(mutex_) = false;
    bool cut_off_ GUARDED_BY(mutex_) = false;   // the broker did not get all records of a topic that it takes
    bool gives_up_ GUARDED_BY(mutex_) = false;  // the process that resumed it could do no more
    bool lost_ GUARDED_BY(mutex_) = false;      // somebody else owns the redrive
    bool complete_ GUARDED_BY(mutex_) = false;  // the store had no further page
    std::string problem_ GUARDED_BY(mutex_);
    std::string not_tried_reason_ GUARDED_BY(mutex_);
    std::vector<std::string> skipped_topics_ GUARDED_BY(mutex_);
    std::string why_skipped_ GUARDED_BY(mutex_);  // of the first
    Counts counts_ GUARDED_BY(mutex_);
};

}  // namespace deliverd::deadletter
