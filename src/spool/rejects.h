// FILE.rejected: the lines of a spool that are not entries, each as one JSON object:
//
//     {"line":17,"reason":"has no jobId","movedAt":1767225600000,"from":"…","text":"…"}
//
// with "base64" instead of "text" for a line that is long or not UTF-8. `from` identifies the line and its file: if a
// run dies before it replaces the file, its lines are here already, and the next run does not write them again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spool/files.h"
#include "spool/line_reader.h"

namespace deliverd::spool {

/// Used by one run at a time (FILE.work.lock).
class Rejects {
public:
    /// Opens nothing yet. `files`, `place` and the open spool `file` must outlive this object.
    Rejects(Files& files, int file, const Place& place, std::int64_t now_ms);

    Result<void> add(const Line& line, const std::string& reason);
    /// Makes the added lines durable.
    Result<void> sync();
    [[nodiscard]] std::int64_t count() const { return count_; }

private:
    Result<void> open();
    Result<void> read_known(std::int64_t size);
    /// `from` of a record; none if a crash has cut the record.
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
    std::string prefix_;              // of `from`: identifies this file
    std::vector<std::string> known_;  // `from` of this file's records, sorted; left by a run that died
    std::int64_t count_ = 0;
};

}  // namespace deliverd::spool
