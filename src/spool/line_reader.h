// The lines of a file, one after another, with memory for one of them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/spool.h"
#include "spool/files.h"

namespace deliverd::spool {

inline constexpr std::size_t kReadChunk = std::size_t{256} * 1024;
inline constexpr std::size_t kOneLineChunk = 4096;  // to read a single line
inline constexpr std::int64_t kWholeFile = std::numeric_limits<std::int64_t>::max();

/// The beginning of a line.
struct LinePosition {
    std::int64_t offset = 0;
    std::int64_t number = 1;
};

struct Line {
    LinePosition at;
    std::int64_t bytes = 0;  // without the line's end
    std::string_view text;   // valid until the next call; empty when too long
    bool ended = true;       // false: the file ends before the line does
    bool too_long = false;   // longer than Reading::max_line
    [[nodiscard]] bool is_blank() const;
};

/// How a file is read.
struct Reading {
    LinePosition from{};
    std::size_t chunk = kReadChunk;             // bytes per read
    std::int64_t end = kWholeFile;              // the reader stops there, even if the file is longer
    std::size_t max_line = kMaxSpoolLineBytes;  // without the line's end
};

class LineReader {
public:
    /// `files` and the open `file` outlive it; `path` is for errors.
    LineReader(Files& files, int file, std::string path, const Reading& reading = {});

    /// None at the end of the file. The last line is returned even without its line end; a new reader that starts at
    /// its position reads it again when it may be complete.
    Result<std::optional<Line>> next();

private:
    /// Reads more of the file into the buffer; false at its end.
    Result<bool> fill();
    Result<std::optional<Line>> skip_long(Line line);

    Files& files_;
    const int file_;
    const std::string path_;
    LinePosition next_;
    const std::int64_t file_end_;
    const std::size_t max_line_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0;  // of what was not returned yet
    std::size_t end_ = 0;
};

/// Reads `bytes` bytes of the file at `offset`. Also fails if the file is shorter.
[[nodiscard]] Result<std::string> read_piece(Files& files, int file, std::int64_t offset, std::size_t bytes,
                                             const std::string& path);

}  // namespace deliverd::spool
