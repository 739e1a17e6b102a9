// Keeping a connection: how long to wait between two attempts, and which of them to log. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace deliverd::sink {

/// Doubles from 50 ms up to `longest`.
class Backoff {
public:
    explicit Backoff(Duration longest) : longest_(longest) {}
    /// The pause before the next attempt.
    Duration next() { return pause_ = std::clamp<Duration>(2 * pause_, std::chrono::milliseconds(50), longest_); }
    /// The connection works: the next pause is the shortest.
    void reset() { pause_ = {}; }

private:
    Duration longest_;
    Duration pause_{};
};

/// One line when a connection is lost or cannot be made, and one when it is there again, however many attempts lie
/// between. `log` outlives it.
class ConnectionLog {
public:
    /// `server`: for people, without a secret.
    ConnectionLog(Log& log, std::string_view sink, std::string server)
        : log_(log), sink_(sink), server_(std::move(server)) {}

    void failed(std::string_view reason) { write("sink cannot connect", reason); }
    void lost(std::string_view reason) { write("sink lost its connection", reason); }
    void connected() {
        if (std::exchange(in_trouble_, false)) log_.info("sink connected", {{"sink", sink_}, {"server", server_}});
    }
    [[nodiscard]] const std::string& server() const { return server_; }

private:
    void write(std::string_view event, std::string_view reason) {
        if (std::exchange(in_trouble_, true)) return;
        log_.warn(event, {{"sink", sink_}, {"server", server_}, {"reason", reason}});
    }

    Log& log_;
    const std::string sink_;
    const std::string server_;
    bool in_trouble_ = false;
};

}  // namespace deliverd::sink
