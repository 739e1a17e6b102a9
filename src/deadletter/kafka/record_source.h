// Reads the dead-letter topics as one member of a consumer group (librdkafka's C API).
//
// Topics are found by their names, new ones within ten seconds, and read from their beginning. Offsets are committed by
// commit() alone. Where the broker no longer has what comes next (its retention ended, or the topic was made anew),
// reading goes on with the oldest record there is, and the log says so as an error.
//
// Assignment is `roundrobin`: it spreads the partitions of all topics, where `range` would give the many topics of one
// partition to one member; `cooperative-sticky`, which would disturb the others less when a member comes or goes, ends
// the whole process in librdkafka before 2.3 when a member leaves before its first assignment. All members of a group
// must agree, so it cannot be set.
//
// Threads: librdkafka's. Memory: about `prefetch_bytes`, and one answer of each broker (kMaxFetchBytes, or the one
// record that is larger) on top. Ends by leaving the group, for which it blocks kCloseDeadline at most.
#pragma once

#include <memory>

#include "base/log.h"
#include "deadletter/kafka/record_source_options.h"
#include "deadletter/ports.h"

namespace deliverd::deadletter {

/// What make_record_source() refuses, for a configuration's check: no brokers, no group, a pattern that no topic can
/// match, a setting librdkafka does not know or whose value it refuses, or one that would break a promise
/// (enable.auto.commit, auto.offset.reset, …). Never repeats a value. Connects to nothing.
[[nodiscard]] Result<void> check_record_source_options(const RecordSourceOptions& options);

/// Joins the group by itself, also once a broker can be reached at all. `log` outlives it.
[[nodiscard]] Result<std::unique_ptr<RecordSource>> make_record_source(RecordSourceOptions options, Log& log);

}  // namespace deliverd::deadletter
