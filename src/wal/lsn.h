// A position in PostgreSQL's write-ahead log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deliverd::wal {

/// Bytes since the beginning of the log. 0 is no position.
using Lsn = std::uint64_t;

/// As PostgreSQL writes it: "16/B374D848".
[[nodiscard]] std::string lsn_text(Lsn lsn);
/// None for anything that PostgreSQL's pg_lsn would refuse.
[[nodiscard]] std::optional<Lsn> parse_lsn(std::string_view text);

}  // namespace deliverd::wal
