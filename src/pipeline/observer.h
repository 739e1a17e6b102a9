// What a lane reports about itself. The program turns it into metrics, the simulator into checks; so neither the
// engines nor the simulator know the metrics library.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "message/message.h"
#include "store/row_queue.h"

namespace deliverd::pipeline {

/// Why a row left the lane, as written to outbox_audit.reason and the metrics.
enum class Reason { success, retry, dead, conflict, dedup_hit, db_timeout, db_error };

[[nodiscard]] constexpr std::string_view to_string(Reason reason) noexcept {
    constexpr std::array<std::string_view, 7> kNames = {
        "outbox_flush_success",   "outbox_flush_retry",      "outbox_flush_dead",    "outbox_flush_conflict",
        "outbox_flush_dedup_hit", "outbox_flush_db_timeout", "outbox_flush_db_error"};
    return kNames[static_cast<std::size_t>(reason)];
}

/// Called from the lane's threads, several at once: implementations are thread-safe and quick.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void on_claimed(std::size_t /*rows*/) {}                  // each poll of the table, even if it found none
    virtual void on_lag(double /*seconds*/) {}                        // the age of each row claimed
    virtual void on_settled(const store::Settlement& /*settled*/) {}  // each that took effect
    virtual void on_send_rate(double /*per_second*/) {}               // the throttle's; 0 while there is none
    virtual void on_flush(Reason /*reason*/, std::size_t /*rows*/) {}
    virtual void on_database_call(std::string_view /*operation*/, Duration /*took*/, bool /*ok*/) {}
    virtual void on_outcome(OutcomeKind /*kind*/, std::string_view /*code*/, Duration /*took*/) {}
    virtual void on_in_flight(std::size_t /*messages*/) {}  // at the sink now
    virtual void on_queue_depth(std::string_view /*queue*/, std::size_t /*items*/) {}
    virtual void on_failure(const Message& /*message*/, const Outcome& /*outcome*/) {}  // each failed send
};

}  // namespace deliverd::pipeline
