// SQLite: WAL journal, a busy timeout, STRICT tables. For one machine, with no set-up.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "store/database.h"

namespace deliverd::store {

struct SqliteOptions {
    std::string path;
    Duration busy_timeout = std::chrono::seconds(5);
    std::int64_t max_payload_bytes = kDefaultMaxPayloadBytes;
};

/// Creates the file when it is absent, not the folder it lies in.
[[nodiscard]] Result<std::unique_ptr<Database>> open_sqlite(SqliteOptions options, Log& log);

}  // namespace deliverd::store
