// A new version of a spool in the place of the old one.
//
//   1. copy     the old file line by line into FILE.new, decided line by line; appends go on meanwhile, and only what
//               was there when nobody was appending is read: an append that fails is taken back
//   2. fsync    FILE.new, FILE.rejected
//   3. lock     FILE.lock: appends wait from here on
//   4. copy     what was appended meanwhile, fsync
//   5. rename   FILE.new over FILE, fsync of the folder, unlock
//
// Whatever fails or dies before the rename leaves the old file as it was. An appender opens the file only when it has
// the lock: it never writes into one that was replaced.
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

/// What becomes of one entry. Fate::replace: with `line`.
struct Decision {
    Fate fate = Fate::keep;
    std::string line{};
};
using Decide = std::function<Result<Decision>(const LinePosition& at, const SpoolEntry& entry)>;

struct RewriteReport {
    std::int64_t kept = 0;  // those that were replaced too
    std::int64_t replaced = 0;
    std::int64_t removed = 0;
    std::int64_t rejected = 0;
};

struct RewriteParts {
    Files& files;
    const Place& place;
    int file;       // the spool, open for reading
    int work_lock;  // FILE.work.lock
    double lock_wait_seconds;
    std::int64_t now_ms;
};

/// The caller has FILE.work.lock. Failure: the file is as it was; ambiguous only where the rename may not be on the
/// disk yet.
Result<RewriteReport> rewrite(const RewriteParts& parts, const Decide& decide);

/// Why the line is no entry, or the entry.
[[nodiscard]] Result<SpoolEntry> read_line(const Line& line);

}  // namespace deliverd::spool
