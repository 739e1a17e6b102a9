// The dead-letter manager: what the API and the command line ask for. Decides; the store and the replayer act.
//
// A retry, step by step, and what a failure leaves behind:
//
//   1. find        read, and refused with the reason where it cannot be sent back
//   2. begin       counted and RETRYING, on the disk           fails: nothing was published
//   3. publish     acks=all, bounded by the sink's timeout     certainly not: RETRYING, at the limit DEAD
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
#include "base/random.h"
#include "deadletter/ports.h"
#include "deadletter/stop_gate.h"
#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// How a retry ended, as the API tells it.
enum class RetryAnswer {
    resolved,  // published and acknowledged, back in its lane, or (without Kafka in the configuration) as the seed has
               // it
    not_found,
    conflict,       // not retryable, refused, or somebody else's retry: `message` says which
    not_published,  // certainly not: it can be retried
    in_doubt,       // may have been published; RETRYING
    unavailable,    // the store could not be asked, or the program ends: nothing was published
};

struct RetryReport {
    RetryAnswer answer = RetryAnswer::not_found;
    std::string message;  // one line for people
    std::optional<store::Letter> letter{};
    std::optional<Error> store_error{};  // unavailable: what the store said; none when the program ends
};

struct RedriveReport {
    store::Redrive redrive;
    bool under_way_elsewhere = false;  // nothing was done here
    std::string problem{};             // not all was tried: why
    /// Of this run: refused, or for a topic that takes nothing. They are as before, and it did not count.
    std::int64_t not_tried = 0;
    std::string not_tried_reason{};  // of the first
};

/// What a retry of a whole topic would send somewhere.
struct PlannedReplay {
    store::Destination destination;
    std::string refused{};  // why it would not be, for its destination; empty: it would be
};

/// Told from whichever thread made the retry.
class RetryObserver {
public:
    virtual ~RetryObserver() = default;
    virtual void on_retry(RetryAnswer /*answer*/) {}
    /// Of one run, also of one that took up what another process had begun: what it did itself.
    virtual void on_redrive(std::int64_t /*published*/, std::int64_t /*failed*/, std::int64_t /*in_doubt*/) {}
};

struct ManagerOptions {
    std::string dead_letter_pattern = std::string(kDeadLetterPattern);  // as in provenance.h
    /// Patterns of the topics that are sent to. None: every topic that is not for dead letters.
    std::vector<std::string> replay_topics{};
    Duration retry_lease = std::chrono::seconds(30);      // longer than publish_at_most
    Duration publish_at_most = std::chrono::seconds(15);  // Replayer::publish() takes no longer
    std::int32_t page = 100;
    std::int32_t pages_at_once = 8;  // that a redrive begins in one transaction
    std::int32_t pages_in_flight = 24;
    Duration store_retry_wait = std::chrono::milliseconds(100);  // after the first failure; doubles each time
    bool close_ends_redrives = false;  // for good, for the person who stops them; else another process resumes them

    std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();

    /// No `kafka` in the configuration: a retry resolves without publishing.
    [[nodiscard]] bool stand_alone() const { return dead_letter_pattern.empty(); }
};

/// Why a caller may not send a letter back; empty: it may. Called from any thread. No rule: every letter may be sent.
using SendRule = std::function<std::string(const store::Letter&)>;

/// The code of retry_all()'s error once stop() was called.
inline constexpr std::string_view kStopping = "stopping";
/// So often a step is tried in the store, where a failure says that it may help.
inline constexpr int kStoreAttempts = 5;
/// Bytes of the letters a redrive has in memory. A letter that is larger than that by itself goes alone.
inline constexpr std::size_t kMaxRedriveBytes = 64UL * 1024 * 1024;
/// So long a broker has to answer before a redrive is resumed.
inline constexpr Duration kBrokerDeadline = std::chrono::seconds(5);
/// So many topics that take nothing a redrive passes by; with one more it ends.
inline constexpr std::size_t kMaxTopicsPassedBy = 100;

/// Destinations that Manager::plan() tells at most.
inline constexpr std::int32_t kMaxPlanned = 50;

/// Random UUIDs. Thread-safe.
[[nodiscard]] std::function<std::string()> uuid_source();

/// Thread-safe. `letters`, `replayer` and `log` outlive it. `replayer` may be null: letters from Kafka then cannot be
/// sent (unless stand_alone); so may `spools`, for letters of spools. `new_id` makes the names under which retries are
/// begun, and keys for records without one.
class Manager {
public:
    Manager(ManagerOptions options, store::DeadLetters& letters, Replayer* replayer, Log& log,
            std::function<std::string()> new_id = uuid_source(), Spools* spools = nullptr);
    ~Manager();  // stop()
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    /// Before the first call of another; `observer` outlives it.
    void observe(RetryObserver& observer) { observer_ = &observer; }

    /// Blocks for a few calls of the store and one of the replayer.
    RetryReport retry(std::string_view id, std::string_view actor, const SendRule& rule = {});

    /// Where retry_all() would send the topic's letters, most first. A letter may be refused for other reasons than its
    /// destination. A header of the record names the destination: whoever can write to a dead-letter topic chooses it,
    /// so that a person should see it first.
    Result<std::vector<PlannedReplay>> plan(std::string_view topic);

    /// Blocks until all of the topic that was there at the beginning was tried, or stop(). Records go out in the order
    /// of the letters, oldest first, as many at once as there are at hand; reading, publishing and recording overlap.
    /// Ends early, with a `problem`, when the broker confirmed nothing of a whole batch, or the store fails for good. A
    /// topic that takes nothing of a batch gets no more; the others go on.
    /// With a `rule`, letters that it refuses are not tried, and a close() ends the redrive for good: whoever resumes
    /// one (after a crash) does not know the rule. Failure: the redrive could not be begun.
    Result<RedriveReport> retry_all(std::string_view topic, std::string_view actor, const SendRule& rule = {});

    /// Takes up what processes that died left unfinished; answers how many redrives that were. One that cannot go on
    /// now, because the broker is away, say, stays unfinished, for the next call. For a chore.
    Result<std::int64_t> resume_abandoned();

    /// Nothing more begins; a redrive ends behind what it has begun, and can be resumed unless close_ends_redrives.
    /// Waits for nobody. Idempotent.
    void close();
    /// close(), and waits for the calls under way, `patience` at most; false when some have not ended by then.
    /// Idempotent.
    bool stop(Duration patience);
    /// With the patience after which what is under way is no longer this process's: `retry_lease`.
    void stop() { stop(options_.retry_lease); }

private:
    RetryReport begin(std::string_view id, std::string_view actor, const SendRule& rule);
    RetryReport send(const store::RetryClaim& claim, const std::string& owner, std::string_view actor);
    RetryReport publish(const store::RetryClaim& claim, const std::string& owner, std::string_view actor);
    RetryReport give_back(const store::RetryClaim& claim, const std::string& owner, std::string_view actor);
    RetryReport put_back(const store::RetryClaim& claim, const std::string& owner, std::string_view actor);
    /// Why this process cannot send it back, whoever asks; empty when it can.
    [[nodiscard]] std::string refusal_here(const store::LetterDetail& detail) const;
    RetryReport record(const store::RetryClaim& claim, const std::string& owner, std::string_view actor,
                       const store::RetryEnd& given);
    Result<RedriveReport> redrive(std::string_view topic, std::string_view actor, const SendRule& rule, bool resumed);
    /// Whether this process can send any of its letters.
    [[nodiscard]] bool can_resume(const std::string& topic) const;

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
