// Writes a file in large pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/try.h"
#include "spool/files.h"

namespace deliverd::spool {

class Output {
public:
    /// `files` and the open `file` outlive it; `path` is for errors.
    Output(Files& files, int file, std::string path) : files_(files), file_(file), path_(std::move(path)) {}

    Result<void> write(std::string_view bytes) {
        buffer_.append(bytes);
        return buffer_.size() >= kPiece ? flush() : Result<void>();
    }
    Result<void> flush() {
        auto written = write_all(files_, file_, buffer_, path_);
        buffer_.clear();
        return written;
    }
    /// flush(), then fsync.
    Result<void> sync() {
        TRY(flush());
        if (const int done = files_.sync(file_); done < 0) return file_failure("fsync", path_, done);
        return {};
    }

private:
    static constexpr std::size_t kPiece = std::size_t{256} * 1024;

    Files& files_;
    const int file_;
    const std::string path_;
    std::string buffer_;
};

}  // namespace deliverd::spool
