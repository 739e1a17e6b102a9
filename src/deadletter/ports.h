// What the dead-letter manager needs from Kafka and from file spools.
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

/// Records of the dead-letter topics, as one member of a consumer group reads them. One thread at a time, except
/// wake().
class RecordSource {
public:
    virtual ~RecordSource() = default;

    /// New records, at most `limit` and about `max_bytes`; waits up to `wait` for the first one, and not for the
    /// others. Empty when nothing came, also while no broker can be reached (it keeps trying by itself). Failure:
    /// permanent, for settings with which it cannot work; it has then ended.
    virtual Result<std::vector<Record>> poll(std::size_t limit, std::size_t max_bytes, Duration wait) = 0;

    /// Everything that poll() gave so far is stored: the group need not read it again. Skips partitions that went to
    /// another member meanwhile. Blocks for `deadline` at most. A commit that fails loses nothing: those records are
    /// read again, and stored once.
    virtual Result<void> commit(Duration deadline) = 0;

    /// For while nothing can be stored: it stays a member of the group, and poll() gives nothing. Records that were
    /// given and not committed are given again after resume().
    virtual void pause() = 0;
    virtual void resume() = 0;

    /// Ends a poll() under way. Thread-safe.
    virtual void wake() = 0;

    /// Records after the last committed one, over all partitions of this member; for the gauge. Negative: not known.
    [[nodiscard]] virtual std::int64_t lag() = 0;

    /// Asks a broker for an answer: when none is there, or it refuses the login, nothing is read, and nothing else
    /// shows it. Blocks for a second at most.
    [[nodiscard]] virtual bool reachable() = 0;
};

/// The codes of a Replayer's outcomes that are about the topic, not the record: it is missing, or deliverd may not
/// write to it.
inline constexpr std::array<std::string_view, 2> kTopicCodes{"UNKNOWN_TOPIC", "NOT_AUTHORIZED"};

/// Publishes records to the topics they came from. Thread-safe.
class Replayer {
public:
    virtual ~Replayer() = default;

    /// Publishes each record to `record.topic`, acks=all, all of them at once. Partition, offset and timestamp are
    /// ignored: the key decides, as for the first producer. Headers, key and value go out as they are. One outcome per
    /// record, in the same order; blocks until each has one, which the sink's timeout bounds.
    virtual std::vector<Outcome> publish(std::span<const Record> records) = 0;

    /// Whether a broker answers. Blocks for `deadline` at most.
    virtual Result<void> check(Duration deadline) = 0;

    /// Ends what is under way: what is not confirmed is ambiguous, or retryable and not_attempted.
    virtual void stop() = 0;
};

/// Puts exhausted entries of spools back into their files. Thread-safe.
class Spools {
public:
    virtual ~Spools() = default;

    /// Why this process cannot put the letter back, for people; empty when it can try. Opens no file.
    [[nodiscard]] virtual std::string refusal(const store::Letter& letter) = 0;

    /// Makes the entries of these letters pending and due at once. One outcome per letter, in the same order:
    /// delivered, also when an earlier call for the same letter did it; permanent when its entry forbids it; otherwise
    /// retryable or ambiguous. Safe to repeat. Blocks while the file is replaced, and for the file's lock.
    virtual std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) = 0;
};

/// Whether the letter is about an entry of a spool.
[[nodiscard]] inline bool is_of_spool(const store::Letter& letter) {
    return letter.source.starts_with("spool:");
}

}  // namespace deliverd::deadletter
