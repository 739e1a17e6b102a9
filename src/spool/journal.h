// FILE.journal: the results of a retry until they are in the file itself. One line per attempt: the offset of the
// entry's line in the file, and its new text.
//
// A journal belongs to one file (its inode and creation time): a file that replaced it contains the journal's results
// already. If a run dies, the next run records its journal before anything else.
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
    /// Begins an empty journal for the open `spool`.
    static Result<JournalWriter> begin(Files& files, int spool, const Place& place);

    /// Writes without fsync: if the process dies nothing is lost; if the machine dies some entries are sent again, with
    /// the same idempotency key. Failure: the journal may end with a part of the note, which read() ignores; no other
    /// note may follow.
    Result<void> note(std::int64_t offset, std::string_view line);

private:
    JournalWriter(Files& files, File file, std::string path)
        : files_(&files), file_(std::move(file)), path_(std::move(path)) {}

    Files* files_;
    File file_;
    std::string path_;
};

class Journal {
public:
    /// Reads the notes for the open `spool`; empty if there is no journal, or it belongs to another file.
    static Result<Journal> read(Files& files, int spool, const Place& place);

    [[nodiscard]] bool exists() const { return static_cast<bool>(file_); }
    [[nodiscard]] bool empty() const { return notes_.empty(); }
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(notes_.size()); }
    /// The new line for the one at `offset`, if there is one. Offsets must ascend from call to call.
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
    std::int64_t last_asked_ = 0;  // the offset of the last at()
};

inline constexpr std::string_view kJournalEnding = ".journal";

}  // namespace deliverd::spool
