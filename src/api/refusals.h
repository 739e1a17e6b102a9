// Logs and counts requests that are refused because of who sent them, and slows down their senders, per address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "http/messages.h"
#include "metrics/metrics.h"

namespace deliverd::api {

inline constexpr int kMaxRefusalLinesPerSecond = 10;
/// An address gets this many refusals at once, then one per interval, each delayed by kMaxRefusalDelay at most.
inline constexpr int kFreeRefusals = 20;
inline constexpr Duration kRefusalInterval = std::chrono::milliseconds(100);
inline constexpr Duration kMaxRefusalDelay = std::chrono::seconds(1);
inline constexpr std::size_t kMaxRefusedAddresses =
    1024;  // remembered; then the one whose delay ends first is forgotten

/// Thread-safe. Never delays a request that is let in.
class Refusals {
public:
    /// `log`, `metrics` (null: not counted) and `clock` outlive it.
    Refusals(Log& log, metrics::Metrics* metrics, const Clock& clock) : log_(log), metrics_(metrics), clock_(clock) {}

    /// Logs and counts a refusal, and returns how long its answer must be delayed. `reason` is one of a few words, for
    /// the log and for api_refused_total; `detail` is for the log only.
    Duration note(const http::Request& request, std::string_view reason, std::string_view detail = {});

    [[nodiscard]] std::size_t addresses();

private:
    /// Whether a line may be written now; if so, `left_out` is how many were left out before it.
    bool may_log(Instant now, std::int64_t& left_out) REQUIRES(mutex_);
    Duration delay_of(const std::string& address, Instant now) REQUIRES(mutex_);
    void make_room(Instant now) REQUIRES(mutex_);

    Log& log_;
    metrics::Metrics* metrics_;
    const Clock& clock_;
    Mutex mutex_;
    Instant second_ GUARDED_BY(mutex_){};  // when the current second of log lines began
    int lines_ GUARDED_BY(mutex_) = 0;     // in this second
    std::int64_t left_out_ GUARDED_BY(mutex_) = 0;
    std::unordered_map<std::string, Instant> used_until_ GUARDED_BY(mutex_);  // by address: its allowance
};

}  // namespace deliverd::api
