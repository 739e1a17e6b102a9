// The options of the sink to NATS.
#pragma once

#include <string>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

struct NatsSinkOptions {
    std::string url;  // nats:// or tls://user:password@host:port, several separated by commas; never logged
    EventAttributesOptions attributes;
    std::string credentials_file{};  // a .creds file of NATS
    std::string token_file{};
    Duration timeout = std::chrono::seconds(5);  // for a message's acknowledgement; then it is ambiguous
    Duration connect_timeout = std::chrono::seconds(3);
    bool verify_tls = true;
    std::string ca_file{};
};

/// Refuses what make_nats_sink() refuses (permanent, `bad_argument`). Never repeats the URL.
[[nodiscard]] Result<void> check_nats_options(const NatsSinkOptions& options);

}  // namespace deliverd::sink
