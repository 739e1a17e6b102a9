// Replaces a spool by a new version of it.
//
//   1. copy     the old file into FILE.new, with a decision for each line. Appends continue; only lines that were there
//               while no process was appending are read, because an append that fails is undone
//   2. fsync    FILE.new, FILE.rejected
//   3. lock     FILE.lock: appends wait from now on
//   4. copy     the lines that were appended since, fsync
//   5. rename   FILE.new over FILE, fsync the folder, unlock
//
// A failure or a crash before the rename leaves the old file unchanged. An appender opens the file only while it holds
// the lock, so it never writes into a file that was replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "deliverd/spool.h"
#include "spool/files.h"
#include "spool/line_reader.h"
#include "spool/rejects.h"

namespace deliverd::spool {

enum class Fate { keep, drop, replace };

/// The fate of one entry; Fate::replace writes `line` instead.
struct Decision {
    Fate fate = Fate::keep;
    std::string line{};
};
using Decide = std::function<Result<Decision>(const LinePosition& at, const SpoolEntry& entry)>;

struct RewriteReport {
    std::int64_t kept = 0;  // including the replaced ones
    std::int64_t replaced = 0;
    std::int64_t removed = 0;
    std::int64_t rejected = 0;
};

struct RewriteContext {
    Files& files;
    const Place& place;
    int file;       // the spool, open for reading
    int work_lock;  // FILE.work.lock
    double lock_wait_seconds;
    std::int64_t now_ms;
};

/// The caller holds FILE.work.lock. Failure: the file is unchanged; ambiguous only if the rename may not be durable
/// yet.
Result<RewriteReport> rewrite(const RewriteContext& context, const Decide& decide);

/// The entry of a line. Failure (permanent, `unreadable`): why it is not one.
[[nodiscard]] Result<SpoolEntry> read_line(const Line& line);

}  // namespace deliverd::spool
