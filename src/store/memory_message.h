// From a row of outbox_memory to the message a sink sends: the same bytes from every store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "message/message.h"

namespace deliverd::store {

struct MemoryFields {
    std::int64_t outbox_id = 0;
    std::optional<std::int64_t> item_id;
    std::string_view target_space;
    std::string_view payload_md;
    std::string_view payload_sha;
    std::int32_t retry_count = 0;
};

/// Body: {"outbox_id","item_id","target_space","payload_md","payload_sha"} in this order. The stores pass UTF-8; bytes
/// that are not become U+FFFD, so that the body is always JSON.
[[nodiscard]] Message memory_message(const MemoryFields& row);

/// The longest last_error that is stored.
inline constexpr std::size_t kMaxStoredErrorBytes = 4096;

/// `text` as both databases can store it: no NUL bytes, valid UTF-8.
[[nodiscard]] std::string storable(std::string_view text);

}  // namespace deliverd::store
