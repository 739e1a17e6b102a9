// The query strings of the routes of dead letters. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "api/api.h"
#include "base/clock.h"
#include "store/dead_letters.h"

namespace deliverd::api {

inline constexpr std::int32_t kMaxDlqPageSize = 100;
inline constexpr std::int32_t kMaxDlqPurge = 10'000;

struct DlqListing {
    store::LetterQuery query;            // without the topic
    std::optional<std::int64_t> page{};  // none: there is a cursor. Beside a cursor it is only repeated in the answer
    std::vector<Detail> problems{};      // one per unknown, repeated or wrong parameter; then use nothing else
};

struct DlqPurge {
    store::LetterStatus status{};
    std::chrono::seconds age{};
    std::int32_t limit = 1000;
    std::vector<Detail> problems{};  // as above
};

struct DlqRetryAll {
    bool dry_run = false;
    std::vector<Detail> problems{};  // as above
};

/// status and older_than_seconds, which are required, and limit.
[[nodiscard]] DlqPurge read_dlq_purge(std::string_view query);

/// dry_run: true or false.
[[nodiscard]] DlqRetryAll read_dlq_retry_all(std::string_view query);

/// page, page_size, cursor, status, source, error_class, from, until, text, key. A + is a space, except in a time,
/// where people forget to escape it.
[[nodiscard]] DlqListing read_dlq_listing(std::string_view query);

}  // namespace deliverd::api
