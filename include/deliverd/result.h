// Errors as values, for every seam of deliverd and for its public client library.
//
// A function that can fail returns Result<T>. The error says what happened, to what, and what to do
// next (`message`), and carries a class, because the class is what the caller decides by:
//
//   retryable   nothing happened; the same call may succeed later
//   permanent   nothing happened; the same call will fail again until something is changed
//   ambiguous   it may or may not have happened; only a repeat that is safe to repeat may follow
//
// Values only: no allocation beyond the strings, no exceptions, safe to copy between threads.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "deliverd/error_codes.h"

namespace deliverd {

enum class ErrorClass { retryable, permanent, ambiguous };

[[nodiscard]] constexpr std::string_view to_string(ErrorClass error_class) noexcept {
    constexpr std::array<std::string_view, 3> kNames{"retryable", "permanent", "ambiguous"};
    return kNames[static_cast<std::size_t>(error_class)];
}

struct Error {
    ErrorClass error_class = ErrorClass::permanent;
    std::string code;     // short and stable, for programs: "db_timeout", "payload_too_large"
    std::string message;  // one line, for people: what happened, to what, what to do
};

template <typename T>
using Result = tl::expected<T, Error>;

using Failure = tl::unexpected<Error>;

[[nodiscard]] inline Failure retryable(std::string code, std::string message) {
    return Failure(Error{ErrorClass::retryable, std::move(code), std::move(message)});
}
[[nodiscard]] inline Failure permanent(std::string code, std::string message) {
    return Failure(Error{ErrorClass::permanent, std::move(code), std::move(message)});
}
/// The caller's mistake: `message` names the argument and says what is possible.
[[nodiscard]] inline Failure bad_argument(std::string message) {
    return permanent(codes::kBadArgument, std::move(message));
}
[[nodiscard]] inline Failure ambiguous(std::string code, std::string message) {
    return Failure(Error{ErrorClass::ambiguous, std::move(code), std::move(message)});
}

}  // namespace deliverd
