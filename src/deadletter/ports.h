// What the dead-letter manager needs of Kafka and of file spools, and no more.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"
#include "message/record.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Records of the dead-letter topics, as one member of a consumer group reads them. Used by one thread at a time, but
/// for wake().
class RecordSource {
public:
    virtual ~RecordSource() = default;

    /// What came in, at most `limit` records and about `max_bytes` of them; waits up to `wait` for the first one, and
    /// not at all for the others. Empty when nothing came, also while no broker can be reached (it goes on looking by
    /// itself). Failure: permanent, for settings with which it cannot work; then it has ended.
    virtual Result<std::vector<Record>> poll(std::size_t limit, std::size_t max_bytes, Duration wait) = 0;

    /// Everything that poll() gave so far is stored: the group need not read it again. Partitions that went to another
    /// member meanwhile are left out. Blocks for `deadline` at most. A commit that fails is no loss: those records are
    /// read again, and stored once.
    virtual Result<void> commit(Duration deadline) = 0;

    /// While nothing can be stored: stay a member of the group, and poll() gives nothing. Records given and not
    /// committed are given again after resume().
    virtual void pause() = 0;
    virtual void resume() = 0;

    /// Ends a poll() under way. Thread-safe.
    virtual void wake() = 0;

    /// Records behind the last one committed, over all partitions this member has; for the gauge. Negative: not known.
    [[nodiscard]] virtual std::int64_t lag() = 0;

    /// Whether a broker answers, which it is asked: without one, or where it refuses the login, nothing is read and
    /// nothing else tells. Blocks for a second at most.
    [[nodiscard]] virtual bool reachable() = 0;
};

/// The codes of a Replayer's outcomes that are about the topic, not the record: it is missing, or may not be written
/// to.
inline constexpr std::array<std::string_view, 2> kTopicCodes{"UNKNOWN_TOPIC", "NOT_AUTHORIZED"};

/// Publishes records to the topics they came from. Thread-safe.
class Replayer {
public:
    virtual ~Replayer() = default;

    /// Each record to `record.topic` (partition, offset and timestamp are ignored: the key decides, as for the first
    /// producer), acks=all, all of them at once. One outcome a record, in the same order; blocks until each has one,
    /// which the sink's timeout bounds. Headers, key and value go out as they are.
    virtual std::vector<Outcome> publish(std::span<const Record> records) = 0;

    /// Whether a broker answers. Blocks for `deadline` at most.
    virtual Result<void> check(Duration deadline) = 0;

    /// Ends what is under way: outcomes of what is not confirmed are ambiguous, or retryable and not_attempted.
    virtual void stop() = 0;
};

/// Puts what spools gave up on back into their files. Thread-safe.
class Spools {
public:
    virtual ~Spools() = default;

    /// Why this process cannot put the letter back, for people; empty when it can try. Opens no file.
    [[nodiscard]] virtual std::string refusal(const store::Letter& letter) = 0;

    /// The entries of these letters are pending and due at once. One outcome a letter, in the same order: delivered
    /// also where that was so already, by an earlier call for the same letter; permanent: its entry forbids it; else
    /// retryable or ambiguous. Safe to repeat. Blocks for a replacement of the file, and what that may wait for.
    virtual std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) = 0;
};

/// Whether the letter is about an entry of a spool.
[[nodiscard]] inline bool is_of_spool(const store::Letter& letter) {
    return letter.source.starts_with("spool:");
}

}  // namespace deliverd::deadletter
