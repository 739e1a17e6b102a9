// FILE.journal: what a retry has done so far, until it is in the file itself. A line an attempt: where the entry's line
// begins in the file, and the line as it is to be.
//
// It is about one file (its inode and when that was made): a file that has replaced that one has all of it already. A
// journal whose run died is recorded by the next run before anything else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spool/files.h"

namespace deliverd::spool {

/// Used by one run at a time (FILE.work.lock).
class JournalWriter {
public:
    /// Begins an empty journal about the open `spool`.
    static Result<JournalWriter> begin(Files& files, int spool, const Place& place);

    /// Written, not synced: a process that dies loses nothing of it, and a machine that does sends some entries again,
    /// with the same idempotency key. Failure: it is not in the journal.
    Result<void> note(std::int64_t offset, std::string_view line);

private:
    JournalWriter(Files& files, File file, std::string path, std::int64_t size)
        : files_(&files), file_(std::move(file)), path_(std::move(path)), size_(size) {}

    Files* files_;
    File file_;
    std::string path_;
    std::int64_t size_;
};

class Journal {
public:
    /// What is noted about the open `spool`; empty where there is no journal, or it is about another file.
    static Result<Journal> read(Files& files, int spool, const Place& place);

    [[nodiscard]] bool exists() const { return static_cast<bool>(file_); }
    [[nodiscard]] bool empty() const { return notes_.empty(); }
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(notes_.size()); }
    /// The new line for the one at `offset`, if there is one. Offsets are asked for in ascending order.
    Result<std::optional<std::string>> at(std::int64_t offset);

private:
    struct Note {
        std::int64_t offset = 0;  // in the spool
        std::int64_t at = 0;      // of the new line in the journal
        std::uint32_t bytes = 0;
    };
    explicit Journal(Files& files) : files_(&files) {}

    Files* files_;
    File file_;
    std::string path_;
    std::vector<Note> notes_;  // by offset
    std::size_t next_ = 0;
};

inline constexpr std::string_view kJournalEnding = ".journal";

}  // namespace deliverd::spool
