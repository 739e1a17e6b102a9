// What the dead-letter manager needs of Kafka, and no more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"
#include "message/record.h"

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
};

/// Publishes records to the topics they came from. Thread-safe.
class Replayer {
public:
    virtual ~Replayer() = default;

    /// Each record to `record.topic` (partition, offset and timestamp are ignored: the key decides, as for the first
    /// producer), acks=all, all of them at once. One outcome a record, in the same order; blocks until each has one,
    /// which the sink's timeout bounds. Headers, key and value go out as they are.
    virtual std::vector<Outcome> publish(std::span<const Record> records) = 0;

    /// Ends what is under way: outcomes of what is not confirmed are ambiguous, or retryable and not_attempted.
    virtual void stop() = 0;
};

}  // namespace deliverd::deadletter
