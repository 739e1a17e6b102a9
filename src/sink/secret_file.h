// Files that a sink's options name: secrets that may be replaced while the program runs (a bearer token, signing
// secrets, a password), and certificate authorities.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "deliverd/result.h"

namespace deliverd::sink {

inline constexpr std::size_t kMaxSecretFileBytes = 16 * 1024;

/// What is in the file, for its errors. The texts are literals.
struct SecretKind {
    std::string_view file;       // "token file"
    std::string_view code;       // of the failure
    std::string_view advice;     // what to put there
    bool several_words = false;  // otherwise white space may only surround the secret
    bool verbatim = false;       // any text as it is, except line breaks at its end
};
inline constexpr SecretKind kToken{"token file", "TOKEN_UNREADABLE", "put one line with the token there"};
inline constexpr SecretKind kPassword{.file = "password_file",
                                      .code = "PASSWORD_UNREADABLE",
                                      .advice = "put one line with the password there",
                                      .verbatim = true};

/// Never logs the secret or puts it into an error. One thread at a time.
class SecretFile {
public:
    /// Reads nothing yet. An empty path: there is no file, and its text is empty.
    SecretFile(std::string path, SecretKind kind) : path_(std::move(path)), kind_(kind) {}

    /// The file's text without surrounding white space; one stat(2) where the file has not changed. The view is
    /// valid until the next call. Failure: retryable, naming the file, while it cannot be read, is empty, too
    /// long, or holds anything but visible ASCII (where it is verbatim: a zero byte). The next call tries again.
    [[nodiscard]] Result<std::string_view> read();

    /// The failure of a secret that was read but cannot be used.
    [[nodiscard]] Failure unusable(std::string_view why) const;

private:
    using Version = std::array<std::int64_t, 4>;  // inode, size, time of the last change (seconds, nanoseconds)

    [[nodiscard]] Result<std::string> read_anew() const;

    std::string path_;
    SecretKind kind_;
    std::string text_;
    Version version_{};
};

/// Whether `path` (empty: none) can be read and holds something. Failure: permanent, `bad_argument`, naming the file.
[[nodiscard]] Result<void> check_ca_file(const std::string& path);

}  // namespace deliverd::sink
