// Reads the dead-letter topics as one member of a consumer group (librdkafka's C API).
//
// Topics are found by their names, new ones within ten seconds, and read from their beginning. Only commit() commits
// offsets. If the broker no longer has the next record (its retention ended, or the topic was created again), reading
// continues with the oldest record there is, and the log reports an error.
//
// Assignment is `roundrobin`: it spreads the partitions of all topics, while `range` would give many topics of one
// partition to the same member. `cooperative-sticky`, which would disturb the others less when a member comes or goes,
// crashes the process in librdkafka before 2.3 when a member leaves before its first assignment. All members of a group
// must agree, so it cannot be configured.
//
// Threads: librdkafka's. Memory: about `prefetch_bytes`, plus one answer per broker (kMaxFetchBytes, or one larger
// record). Ends by leaving the group, for which it blocks kCloseDeadline at most.
#pragma once

#include <memory>

#include "base/log.h"
#include "deadletter/kafka/record_source_options.h"
#include "deadletter/ports.h"

namespace deliverd::deadletter {

/// The check of make_record_source(), for a configuration: it refuses missing brokers or group, a pattern that no topic
/// can match, a setting that librdkafka does not know or whose value it refuses, and one that would break a promise
/// (enable.auto.commit, auto.offset.reset, …). Never repeats a value. Connects to nothing.
[[nodiscard]] Result<void> check_record_source_options(const RecordSourceOptions& options);

/// Joins the group by itself, as soon as a broker can be reached. `log` outlives it.
[[nodiscard]] Result<std::unique_ptr<RecordSource>> make_record_source(RecordSourceOptions options, Log& log);

}  // namespace deliverd::deadletter
