#include "sink/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "base/handle.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

std::string why_errno() {
    return std::generic_category().message(errno);
}

}  // namespace

Failure SecretFile::unusable(std::string_view why) const {
    return retryable(std::string(kind_.code), fmt::format("{} {}: {}; {}", kind_.file, path_, why, kind_.advice));
}

Result<std::string> SecretFile::read_anew() const {
    // Not blocking, or a pipe that nobody writes to would hold up the sink for ever.
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const Handle<std::FILE, std::fclose> file(fd < 0 ? nullptr : ::fdopen(fd, "r"));
    if (!file) return unusable(why_errno());
    std::string text(kMaxSecretFileBytes + 1, '\0');  // one more, to notice a longer file
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0) return unusable(why_errno());
    if (text.size() > kMaxSecretFileBytes) return unusable("too long");
    // A password may have any characters, but editors end a file with a line break.
    if (kind_.verbatim) {
        text.erase(text.find_last_not_of("\r\n") + 1);
        if (text.empty()) return unusable("empty");
        if (text.find('\0') != std::string::npos) return unusable("holds a zero byte");
        return text;
    }
    const auto first = text.find_first_not_of(kWhiteSpace);
    if (first == std::string::npos) return unusable("empty");
    text = text.substr(first, text.find_last_not_of(kWhiteSpace) + 1 - first);
    if (!kind_.several_words && !std::ranges::all_of(text, is_visible)) {
        return unusable("holds more than one word of visible ASCII");
    }
    const auto is_text = [](char c) { return is_visible(c) || kWhiteSpace.find(c) != std::string_view::npos; };
    if (!std::ranges::all_of(text, is_text)) return unusable("holds more than visible ASCII");
    return text;
}

Result<std::string_view> SecretFile::read() {
    if (path_.empty()) return std::string_view();
    // Its time alone would not do: two secrets may be written within one tick of the file system's clock. A file that
    // replaces another has another inode.
    struct stat status{};
    if (::stat(path_.c_str(), &status) != 0) {
        text_.clear();
        return unusable(why_errno());
    }
    const Version now{static_cast<std::int64_t>(status.st_ino), status.st_size, status.st_mtim.tv_sec,
                      status.st_mtim.tv_nsec};
    if (text_.empty() || now != version_) {
        text_.clear();  // also if reading fails: the former secret was replaced for a reason
        TRY_ASSIGN(auto fresh, read_anew());
        text_ = std::move(fresh);
        version_ = now;
    }
    return std::string_view(text_);
}

Result<void> check_ca_file(const std::string& path) {
    if (path.empty()) return {};
    std::ifstream file(path);
    if (file.good() && file.peek() != std::ifstream::traits_type::eof()) return {};
    return bad_argument(
        fmt::format("the sink's ca_file {} is empty or cannot be read: name a file with "
                    "the certificate authority in PEM",
                    path));
}

}  // namespace deliverd::sink
