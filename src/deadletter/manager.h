// The dead-letter manager: every change of a letter that the API and the command line ask for goes through it. It
// decides; the store, the replayer and the spools act.
//
// A retry, step by step, and what a failure leaves behind:
//
//   1. find        read, and refused with the reason when it cannot be sent back
//   2. begin       counted and RETRYING, on the disk           fails: nothing was published
//   3. send        (batch_sender.h)                            certainly not sent: RETRYING, at the limit DEAD
//                                                              not even tried (no broker): as before step 2
//                                                              nobody knows: RETRYING and in doubt
//   4. end         RESOLVED                                    fails, or the process dies before it: the message is out
//                                                              and still RETRYING. After the lease it can be retried,
//                                                              which publishes it a second time: the one duplicate
//                                                              there is, and the answer ("in doubt") says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/uuid.h"
#include "deadletter/batch_sender.h"
#include "deadletter/manager_options.h"
#include "deadletter/ports.h"
#include "deadletter/reports.h"
#include "deadletter/stop_gate.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

class RedriveRun;

/// Called from whichever thread made the retry.
class RetryObserver {
public:
    virtual ~RetryObserver() = default;
    virtual void on_retry(RetryAnswer /*answer*/) {}
    /// Counts of one run: what it did itself, also when it resumed what another process had begun.
    virtual void on_redrive(std::int64_t /*published*/, std::int64_t /*failed*/, std::int64_t /*in_doubt*/) {}
};

/// The code of retry_all()'s error after close().
inline constexpr std::string_view kStopping = "stopping";

/// Thread-safe. `letters`, `replayer` and `log` outlive it. `replayer` may be null: letters from Kafka then cannot be
/// sent (unless stand_alone); so may `spools`, for letters of spools. `new_id` makes the names under which retries are
/// begun, and keys for records that have none.
class Manager {
public:
    Manager(ManagerOptions options, store::DeadLetters& letters, Replayer* replayer, Log& log,
            std::function<std::string()> new_id = uuid_source(), Spools* spools = nullptr);
    ~Manager();  // stop()
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Before the first retry; `observer` outlives it.
    void observe(RetryObserver& observer) { observer_ = &observer; }

    // --- sending back ----------------------------------------------------------------------------------------------

    /// Blocks for a few calls of the store and one of the replayer.
    RetryReport retry(std::string_view id, std::string_view actor, const SendRule& rule = {});

    /// Where retry_all() would send the topic's letters, most first, kMaxPlanned at most. A letter may be refused for
    /// other reasons than its destination. A header of the record names the destination: anyone who can write to a
    /// dead-letter topic chooses it, so a person should see it first. `rule` gets a letter that has only source and
    /// destination. Changes nothing; one cheap call of the store.
    Result<std::vector<PlannedReplay>> plan(std::string_view topic, const SendRule& rule = {});

    /// Blocks until everything that was in the topic at the beginning was tried, or stop(). Records go out in the order
    /// of the letters, oldest first. Stops early, with a `problem`, when the broker confirmed nothing of a whole batch,
    /// or the store fails permanently. Skips a topic that accepted no record of a batch; the others continue.
    /// With a `rule`, letters that it refuses are not tried, and close() ends the redrive for good: whoever would
    /// resume it does not know the rule. Failure: the redrive could not be begun.
    Result<RedriveReport> retry_all(std::string_view topic, std::string_view actor, const SendRule& rule = {});

    /// Resumes the redrives of processes that died. Returns how many. One that cannot continue now, for example because
    /// no broker answers, stays unfinished for the next call. For a chore.
    Result<std::int64_t> resume_abandoned();

    /// A redrive whose steps the caller makes; for simulators. Null: it is under way elsewhere.
    Result<std::unique_ptr<RedriveRun>> begin_redrive(std::string_view topic, std::string_view actor,
                                                      const SendRule& rule, bool resumed);

    // --- by hand ---------------------------------------------------------------------------------------------------

    // One or two calls of the store. A letter that is being retried at this moment is left as it is: a conflict.

    /// PENDING or RETRYING -> DEAD.
    ChangeReport mark_dead(std::string_view id, std::string_view actor);
    /// DEAD -> PENDING, with all of its retries again. Orders are not sent again, and not revived.
    ChangeReport revive(std::string_view id, std::string_view actor);
    /// Its audit stays.
    ChangeReport remove(std::string_view id, std::string_view actor);
    /// Deletes letters of that status that did not change for `age`, `limit` at most (none: all of them), in small
    /// transactions.
    PurgeReport purge(store::LetterStatus status, Duration age, std::optional<std::int64_t> limit,
                      std::string_view actor);
    /// At most `limit` of these. Returns how many; fewer than `limit` does not mean that none are left, 0 twice in a
    /// row does.
    Result<std::int64_t> purge_piece(store::LetterStatus status, Duration age, std::int32_t limit,
                                     std::string_view actor) {
        return letters_.purge(status, age, limit, actor);
    }
    /// Deletes audit lines and finished redrives older than `age`, `limit` at most. Returns how many.
    Result<std::int64_t> purge_history(Duration age, std::int32_t limit) { return letters_.purge_history(age, limit); }

    // --- the end ---------------------------------------------------------------------------------------------------

    /// No retry begins from now on; a redrive ends after what it has begun, and can be resumed unless
    /// close_ends_redrives. Does not block. Idempotent.
    void close();
    /// close(), and waits for the calls under way, `patience` at most; false when some have not ended by then.
    /// Idempotent.
    bool stop(Duration patience);
    /// Waits for `retry_lease`: after it, other processes may take over what is under way.
    void stop() { stop(options_.retry_lease); }

private:
    RetryReport begin_and_send(std::string_view id, std::string_view actor, const SendRule& rule);
    RetryReport send(RetryBatch batch, std::string owner, std::string_view actor, const SendRule& rule);
    /// Why nobody may send it to where it came from, this caller may not, or this process cannot; empty: it goes.
    [[nodiscard]] std::string refusal(const store::LetterDetail& letter, const SendRule& rule) const;
    [[nodiscard]] std::string refusal_here(const store::LetterDetail& letter) const;
    Result<RedriveReport> redrive(std::string_view topic, std::string_view actor, const SendRule& rule, bool resumed);
    /// Whether this process can send any of its letters.
    [[nodiscard]] bool can_resume(const std::string& topic) const;
    [[nodiscard]] RetryServices services();

    const ManagerOptions options_;
    store::DeadLetters& letters_;
    Replayer* const replayer_;
    Log& log_;
    const std::function<std::string()> new_id_;
    Spools* const spools_;
    RetryObserver* observer_ = nullptr;
    StopGate gate_;
};

}  // namespace deliverd::deadletter
