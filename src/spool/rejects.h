// FILE.rejected: the lines of a spool that are no entries, each as one JSON object:
//
//     {"line":17,"reason":"has no jobId","movedAt":1767225600000,"from":"…","text":"…"}
//
// with "base64" in place of "text" for a line that is long or not UTF-8. `from` tells the same line of the same file
// apart: a run that died before it could replace the file has left its lines here already, and the next one does not
// write them again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spool/files.h"
#include "spool/line_reader.h"
#include "spool/output.h"

namespace deliverd::spool {

/// Used by one run at a time (FILE.work.lock).
class Rejects {
public:
    /// Opens nothing yet. `files`, `place` and the open spool `file`, whose lines they are, outlive it.
    Rejects(Files& files, int file, const Place& place, std::int64_t now_ms);

    Result<void> add(const Line& line, const std::string& reason);
    /// What was added is on the disk.
    Result<void> sync();
    [[nodiscard]] std::int64_t count() const { return count_; }

private:
    Result<void> open();
    Result<void> read_known(std::int64_t size);
    /// `from` of a record; none where a crash has cut it.
    Result<std::optional<std::string>> from_of(const Line& record);
    Result<void> copy_base64(const Line& line);

    Files& files_;
    const int file_;
    const Place& place_;
    const std::string path_;
    const std::int64_t now_ms_;
    File out_file_;
    std::optional<Output> out_;
    bool is_new_ = false;
    std::string prefix_;              // of `from`: this very file
    std::vector<std::string> known_;  // of this file, sorted; only a run that died leaves some
    std::int64_t count_ = 0;
};

}  // namespace deliverd::spool
