// The port to the receivers of messages: one asynchronous batch call, outcomes in any order.
//
// The contract for every sink:
//   - send() starts the messages of a batch and returns without waiting for the network;
//   - each message gets exactly one outcome, from any thread, in any order, possibly before send() returns;
//   - an outcome is *delivered* only when the receiver said so, *retryable* or *permanent* only when it
//     certainly has not taken the message, and *ambiguous* whenever neither is known;
//   - a retryable outcome is *not_attempted* when its cause is the same for every message and not about this one: no
//     token to send with, a broker that is away or can store nothing. It costs the message no attempt, and the lane
//     pauses and keeps what it has: if it counted, every message of a long outage would die. A cause that may be the
//     message's own must not be reported so;
//   - every attempt ends within the sink's own named timeout;
//   - the sink never retries by itself anything that could deliver a message twice: retrying is the lane's job.
//
// sink/testing/contract.h tests this on every sink with its real server.
#pragma once

#include <span>
#include <string_view>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"

namespace deliverd::sink {

/// The code of an outcome of a sink that was stopped: retryable when the message had not gone out.
inline constexpr std::string_view kStopped = "STOPPED";

/// The code of a not_attempted outcome while a broker cannot be reached.
inline constexpr std::string_view kBrokerUnreachable = "BROKER_UNREACHABLE";

/// Takes outcomes. Called from the sink's threads: must be quick, must not call back into the sink.
class OutcomeReceiver {
public:
    virtual ~OutcomeReceiver() = default;
    virtual void on_outcome(const Message& message, Outcome outcome) = 0;
};

class Sink {
public:
    /// Implies stop() with no patience.
    virtual ~Sink() = default;

    /// `messages` point to values that stay alive and unchanged until their outcome was reported; so does
    /// `receiver`. Called from one thread at a time; the caller keeps at most `parallelism` under way.
    virtual void send(std::span<const Message* const> messages, OutcomeReceiver& receiver) = 0;

    /// Waits up to `patience` for what is under way, then reports the rest as kStopped: ambiguous what may have gone
    /// out, retryable what certainly has not. No outcome is reported after it returns. A later send() reports each
    /// message as kStopped, retryable, and sends nothing. Idempotent.
    virtual void stop(Duration patience) = 0;

    /// For `deliverd doctor`: can the receiver be reached? Blocks for at most `deadline`; sends no message.
    virtual Result<void> check(Duration deadline) = 0;
};

}  // namespace deliverd::sink
