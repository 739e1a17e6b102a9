// What commands read from files and from standard input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "deliverd/result.h"

namespace deliverd::cli {

/// A JSON payload that is read from a file or from standard input.
inline constexpr std::int64_t kMaxPayloadInputBytes = std::int64_t{16} << 20;

/// The content of file `path`, or of standard input if it is "-", up to `limit` bytes. Failure: `bad_argument`, naming
/// `flag` and `path`.
[[nodiscard]] Result<std::string> read_input(const Context& context, std::string_view flag, const std::string& path,
                                             std::int64_t limit = kMaxPayloadInputBytes,
                                             std::string_view limit_setting = {});

/// `value` itself, or the content of FILE for "@FILE", or standard input for "-" (also "@-"); "@@text" is "@text".
/// Failure: as read_input().
[[nodiscard]] Result<std::string> text_or_input(const Context& context, std::string_view flag, const std::string& value,
                                                std::int64_t limit = kMaxPayloadInputBytes,
                                                std::string_view limit_setting = {});

}  // namespace deliverd::cli
