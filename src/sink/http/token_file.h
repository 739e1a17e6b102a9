// A bearer token that lives in a file and may be replaced while the program runs.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::sink {

inline constexpr std::size_t kMaxTokenBytes = 16 * 1024;

/// Never logs the token or puts it into an error. One thread at a time.
class TokenFile {
public:
    /// Reads nothing yet.
    explicit TokenFile(std::string path) : path_(std::move(path)) {}

    /// The token, without surrounding white space; one stat(2) where the file has not changed. The view is
    /// valid until the next call. Failure: retryable, naming the file, while it cannot be read, is empty, too
    /// long, or holds anything but visible ASCII. The next call tries again.
    [[nodiscard]] Result<std::string_view> token();

private:
    struct Version {
        ino_t inode = 0;
        off_t size = 0;
        time_t seconds = 0;
        long nanoseconds = 0;
        bool operator==(const Version&) const = default;
    };

    std::string path_;
    std::string token_;
    Version version_;
};

}  // namespace deliverd::sink
