// The port through which events come from elsewhere in bulk, each once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::store {

/// An event to be stored in the table `outbox`. Views: they outlive the call.
struct ImportedEvent {
    std::string_view key;  // a uuid: it is stored once by it, and becomes its event_id
    std::string_view aggregate_id;
    std::string_view event_type;
    std::string_view payload;   // JSON
    std::string_view metadata;  // a JSON object
};

/// Threads, blocking and failure: as in store/row_queue.h.
class Imports {
public:
    virtual ~Imports() = default;

    /// All in one transaction, on the disk when it returns, with a line each in outbox_audit; those whose key was given
    /// since the last forget() of their origin are left out. Answers how many were new. An event that the database
    /// cannot hold refuses the whole call (permanent): try the others without it. No key comes twice in a call.
    virtual Result<std::int64_t> store(std::string_view origin, std::string_view actor,
                                       std::span<const ImportedEvent> events) = 0;

    /// The origin no longer has any of them: forgets their keys.
    virtual Result<void> forget(std::string_view origin) = 0;
};

}  // namespace deliverd::store
