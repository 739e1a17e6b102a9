#include "spool/line_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/try.h"

namespace deliverd::spool {

bool Line::is_blank() const {
    return !too_long && text.find_first_not_of(" \t\r") == std::string_view::npos;
}

LineReader::LineReader(Files& files, int file, std::string path, const Reading& reading)
    : files_(files),
      file_(file),
      path_(std::move(path)),
      next_(reading.from),
      file_end_(reading.end),
      max_line_(reading.max_line),
      buffer_(reading.chunk) {}

Result<bool> LineReader::fill() {
    ASSERT(begin_ <= end_ && end_ <= buffer_.size());
    // Keeps the part of a line that is there, and makes room behind it.
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    // A longer line than max_line_ is skipped, so that the buffer never has to be much larger.
    if (end_ == buffer_.size()) buffer_.resize(std::min(buffer_.size() * 2, max_line_ + kReadChunk));
    const std::int64_t offset = next_.offset + static_cast<std::int64_t>(end_);
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(file_end_ - offset, 0));
    const ssize_t read =
        files_.read_at(file_, buffer_.data() + end_, std::min(buffer_.size() - end_, left), static_cast<off_t>(offset));
    if (read < 0) return file_failure("read", path_, read);
    end_ += static_cast<std::size_t>(read);
    return read > 0;
}

Result<std::optional<Line>> LineReader::next() {
    Line line;
    line.at = next_;
    std::size_t searched = 0;  // so that a long line is not searched again after each read
    while (true) {
        const char* const from = buffer_.data() + begin_;
        const void* const found = std::memchr(from + searched, '\n', end_ - begin_ - searched);
        if (found != nullptr) {
            line.bytes = static_cast<const char*>(found) - from;
            line.too_long = static_cast<std::size_t>(line.bytes) > max_line_;
            if (!line.too_long) line.text = {from, static_cast<std::size_t>(line.bytes)};
            begin_ += static_cast<std::size_t>(line.bytes) + 1;
            next_ = {line.at.offset + line.bytes + 1, line.at.number + 1};
            return line;
        }
        searched = end_ - begin_;
        if (searched > max_line_) return skip_long(line);
        TRY_ASSIGN(const auto more, fill());
        if (!more) break;
    }
    // What is left is at the buffer's beginning: fill() has moved it.
    if (end_ == 0) return std::nullopt;
    // The number stays: what is appended later continues this line.
    line.ended = false;
    line.bytes = static_cast<std::int64_t>(end_);
    line.text = {buffer_.data(), end_};
    next_.offset += line.bytes;
    begin_ = end_;
    return line;
}

/// Counts the line's bytes and keeps none of them.
Result<std::optional<Line>> LineReader::skip_long(Line line) {
    line.too_long = true;
    while (true) {
        line.bytes += static_cast<std::int64_t>(end_ - begin_);
        next_.offset += static_cast<std::int64_t>(end_ - begin_);
        begin_ = end_;
        TRY_ASSIGN(const auto more, fill());
        if (!more) break;
        const void* const found = std::memchr(buffer_.data(), '\n', end_);
        if (found == nullptr) continue;
        const auto rest = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
        line.bytes += static_cast<std::int64_t>(rest);
        begin_ = rest + 1;
        next_ = {line.at.offset + line.bytes + 1, line.at.number + 1};
        return line;
    }
    line.ended = false;
    return line;
}

Result<std::string> read_piece(Files& files, int file, std::int64_t offset, std::size_t bytes,
                               const std::string& path) {
    std::string out(bytes, '\0');
    std::size_t done = 0;  // pread(2) may read less
    while (done < bytes) {
        const ssize_t read = files.read_at(file, out.data() + done, bytes - done,
                                           static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
        if (read <= 0) return file_failure("read", path, read == 0 ? -EIO : read);
        done += static_cast<std::size_t>(read);
    }
    return out;
}

}  // namespace deliverd::spool
