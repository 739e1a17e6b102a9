// The manager's options and limits: in a header of their own, because every unit of the room reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::deadletter {

struct ManagerOptions {
    std::string dead_letter_pattern = std::string(kDeadLetterPattern);  // of the topics that are read
    /// Patterns of the topics that may be sent to. Empty: every topic that is not for dead letters.
    std::vector<std::string> replay_topics{};
    Duration retry_lease = std::chrono::seconds(30);             // longer than publish_at_most
    Duration publish_at_most = std::chrono::seconds(15);         // Replayer::publish() takes no longer
    std::int32_t page = 100;                                     // letters; this and the next two: 1 or more
    std::int32_t pages_at_once = 8;                              // that a redrive begins in one transaction
    std::int32_t pages_in_flight = 24;                           // begun and not recorded
    Duration store_retry_wait = std::chrono::milliseconds(100);  // after the first failure; doubles each time
    /// close() ends a redrive permanently, for the person who stops it. Otherwise another process resumes it.
    bool close_ends_redrives = false;

    std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();

    /// The configuration has no `kafka`: a retry resolves without publishing.
    [[nodiscard]] bool stand_alone() const { return dead_letter_pattern.empty(); }
};

/// Attempts per store call when the error is retryable.
inline constexpr int kStoreAttempts = 5;
/// Bytes of letters that a redrive holds in memory. A letter that is larger goes alone.
inline constexpr std::size_t kMaxRedriveBytes = 64UL * 1024 * 1024;
/// Time for a broker to answer before a redrive is resumed.
inline constexpr Duration kBrokerDeadline = std::chrono::seconds(5);
/// A redrive skips at most this many topics that accept no message, then stops.
inline constexpr std::size_t kMaxSkippedTopics = 100;
/// Destinations in a plan at most.
inline constexpr std::int32_t kMaxPlanned = 50;
/// Letters that a purge deletes in one transaction.
inline constexpr std::int32_t kPurgePiece = 500;

}  // namespace deliverd::deadletter
