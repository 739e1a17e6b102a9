// What a lane tells about itself. The program turns it into metrics; the simulator into checks.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "message/message.h"
#include "store/outbox.h"

namespace deliverd::pipeline {

/// Why a row left the lane, as written to outbox_audit.reason and the metrics.
enum class Reason { success, retry, dead, conflict, dedup_hit, db_timeout, db_error };

[[nodiscard]] constexpr std::string_view to_string(Reason reason) noexcept {
    switch (reason) {
        case Reason::success:
            return "outbox_flush_success";
        case Reason::retry:
            return "outbox_flush_retry";
        case Reason::dead:
            return "outbox_flush_dead";
        case Reason::conflict:
            return "outbox_flush_conflict";
        case Reason::dedup_hit:
            return "outbox_flush_dedup_hit";
        case Reason::db_timeout:
            return "outbox_flush_db_timeout";
        case Reason::db_error:
            return "outbox_flush_db_error";
    }
    return "unknown";
}

/// Called from the lane's threads, several at once: implementations are thread-safe and quick.
class Observer {
public:
    virtual ~Observer() = default;
    virtual void on_claimed(std::size_t /*rows*/) {}  // each look at the table, also one that found none
    virtual void on_lag(double /*seconds*/) {}        // store::Claimed::age_seconds of each row claimed
    virtual void on_settled(const store::Settlement& /*settled*/) {}  // each that took effect
    virtual void on_send_rate(double /*per_second*/) {}               // the throttle's; 0 while there is none
    virtual void on_flush(Reason /*reason*/, std::size_t /*rows*/) {}
    virtual void on_database_call(std::string_view /*operation*/, Duration /*took*/, bool /*ok*/) {}
    virtual void on_outcome(OutcomeKind /*kind*/, std::string_view /*code*/, Duration /*took*/) {}
    virtual void on_in_flight(std::size_t /*messages*/) {}  // at the sink now
    virtual void on_queue_depth(std::string_view /*queue*/, std::size_t /*items*/) {}
    virtual void on_failure(const Message& /*message*/, const Outcome& /*outcome*/) {}  // each failed send
};

/// Runs `call` (a method of a store), tells the observer how long it took and whether it worked.
template <typename Call>
auto timed(const Clock& clock, Observer& observer, std::string_view operation, Call&& call) {
    const Instant began = clock.now();
    auto answer = std::forward<Call>(call)();
    observer.on_database_call(operation, clock.now() - began, answer.has_value());
    return answer;
}

}  // namespace deliverd::pipeline
