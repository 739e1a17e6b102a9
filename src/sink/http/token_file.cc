#include "sink/http/token_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace deliverd::sink {

namespace {

constexpr std::string_view kCode = "TOKEN_UNREADABLE";

Failure unreadable(const std::string& path, std::string_view why) {
    return retryable(std::string(kCode),
                     fmt::format("token file {}: {}; put one line with the token there", path, why));
}

std::string why_errno() {
    return std::generic_category().message(errno);
}

/// As much as a token may have and one byte more; -1 in `errno`'s terms is a negative answer.
ssize_t read_up_to(int fd, char* out, std::size_t size) {
    std::size_t got = 0;
    while (got < size) {
        const auto count = ::read(fd, out + got, size - got);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        if (count == 0) break;
        got += static_cast<std::size_t>(count);
    }
    return static_cast<ssize_t>(got);
}

Result<std::string> read_token(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return unreadable(path, why_errno());
    std::string text(kMaxTokenBytes + 1, '\0');
    const auto size = read_up_to(fd, text.data(), text.size());
    const std::string why = size < 0 ? why_errno() : std::string();
    ::close(fd);
    if (size < 0) return unreadable(path, why);
    text.resize(static_cast<std::size_t>(size));
    if (text.size() > kMaxTokenBytes) return unreadable(path, "too long for a token");
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return unreadable(path, "empty");
    text = text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; })) {
        return unreadable(path, "holds more than one word of visible ASCII");
    }
    return text;
}

}  // namespace

Result<std::string_view> TokenFile::token() {
    struct stat status{};
    if (::stat(path_.c_str(), &status) != 0) {
        token_.clear();
        return unreadable(path_, why_errno());
    }
    const Version now{status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    if (token_.empty() || !(now == version_)) {
        token_.clear();
        auto fresh = read_token(path_);
        if (!fresh) return Failure(fresh.error());
        token_ = std::move(*fresh);
        version_ = now;
    }
    return std::string_view(token_);
}

}  // namespace deliverd::sink
