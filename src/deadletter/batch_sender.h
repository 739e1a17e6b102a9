// Sends letters whose retry has begun back to where they came from, and records how each ended. A retry of one letter
// and a redrive of a topic both go through here; they differ in how letters are chosen and what an outage means.
//
//   letter of      goes back by                    recorded by
//   a lane         DeadLetters::return_to_lane()   the same call: row and letter are in one database
//   a spool        Spools::put_back()              record()
//   Kafka          Replayer::publish()             record()
//
// A retry is on the disk before anything is sent. The other order would publish without a trace when the process dies.
// This way a crash leaves a letter that is RETRYING and owned; after its lease it can be retried, and is then in doubt:
// the only duplicate there is, and it is reported.
//
// "Not tried" is not a failure: without a broker the count is restored, so that an outage does not make letters DEAD.
// Only what a broker refuses because of the record counts. What was sent and not confirmed is in doubt, also if the
// retry that takes it over sends nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "deadletter/manager_options.h"
#include "deadletter/ports.h"
#include "deadletter/stop_gate.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// What retries work with. Everything outlives them.
struct RetryServices {
    const ManagerOptions& options;
    store::DeadLetters& letters;
    Replayer* replayer;  // null: this process has no connection to Kafka
    Spools* spools;      // null: this process has no spools, and their letters are refused
    Log& log;
    StopGate& gate;
    const std::function<std::string()>& new_id;
};

/// Letters whose retry began in one transaction.
struct RetryBatch {
    std::vector<store::RetryClaim> claims;
    Instant begun_at{};  // not later than their leases began
};

/// How the letters of a batch ended: each letter that was begun has exactly one end, in one of the two lists.
struct SentBatch {
    std::vector<store::RetryEnd> ends;      // still to be recorded
    std::vector<store::RetryEnd> recorded;  // the store has them already; of lanes
    bool too_late = false;                  // some were not published because their lease could have ended meanwhile
    bool spool_forbids = false;             // an entry does not allow it
    std::string lane_problem{};             // why lanes took nothing; empty: they did, or there was nothing for them
    std::string spool_problem{};            // why spools took nothing
};

struct SendRules {
    /// Why a letter is not sent; empty: it is.
    std::function<std::string(const store::LetterDetail&)> refusal;
    /// Gets the broker's answers before they become the letters' ends, and may change them. May be empty.
    std::function<void(std::span<const Record>, std::span<Outcome>)> review{};
};

/// Repeats a store call that is safe to repeat while its error is retryable: kStoreAttempts at most, with waits that
/// double. Closing the gate ends the waits, not the attempts: what was published still has to be recorded.
class StoreAttempts {
public:
    StoreAttempts(Duration wait, StopGate& gate) : wait_(wait), gate_(gate) {}

    template <typename Call>
    auto run(Call call) -> decltype(call()) {
        for (int attempt = 1;; ++attempt) {
            auto result = call();
            if (result) return result;
            if (result.error().error_class == ErrorClass::ambiguous) ambiguous_ = true;
            if (result.error().error_class == ErrorClass::permanent || attempt == kStoreAttempts) return result;
            gate_.wait(wait_);
            wait_ *= 2;
        }
    }

    /// An attempt may have taken effect without an answer.
    [[nodiscard]] bool was_ambiguous() const { return ambiguous_; }

private:
    Duration wait_;
    StopGate& gate_;
    bool ambiguous_ = false;
};

/// For one retry or redrive. send() is called by one thread, record() by one thread, at the same time if need be.
class BatchSender {
public:
    /// `redrive_topic`: the redrive whose counts the ends belong to; none for a retry of one letter.
    BatchSender(const RetryServices& services, std::string owner, std::string actor, SendRules rules,
                std::optional<std::string> redrive_topic = std::nullopt);

    /// Records for Kafka go out in one call, in the order of the letters. With a `why_not` (and when the lease could
    /// end while they are published) they do not go out and are not tried. Blocks for as long as the ports do.
    [[nodiscard]] SentBatch send(std::vector<RetryBatch> batches, std::string_view why_not = {});

    /// Records the ends in one transaction. Returns how many took effect: fewer if letters were deleted or taken over
    /// after their lease. Repeats the call while its error is retryable; after a lost answer, the letters show whether
    /// the ends were recorded.
    [[nodiscard]] Result<std::int64_t> record(std::span<const store::RetryEnd> ends);

private:
    struct Sorted;
    [[nodiscard]] Sorted sort(std::vector<RetryBatch> batches, std::string_view why_not, SentBatch& sent);
    void return_to_lanes(const Sorted& sorted, SentBatch& sent);
    void put_into_spools(const Sorted& sorted, SentBatch& sent);
    void publish(Sorted& sorted, SentBatch& sent);
    [[nodiscard]] bool is_too_late(const RetryBatch& batch) const;
    [[nodiscard]] bool are_recorded(std::span<const store::RetryEnd> ends);

    const RetryServices services_;
    const std::string owner_;
    const std::string actor_;
    const SendRules rules_;
    const std::optional<std::string> redrive_topic_;
};

}  // namespace deliverd::deadletter
