// Assertions that stay on in the released program.
//
// ASSERT is for what this program guarantees itself: an invariant of a class, an index that was checked before, an
// order of calls. A false one is a bug, and continuing would risk what deliverd promises. The process ends with
// the place and the condition, and another process takes over what it held. Never for input, nor for what a server
// answered: those are Results.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace deliverd {

/// Writes "FILE:LINE: assertion failed: CONDITION" to standard error and aborts. Thread-safe.
[[noreturn]] inline void assertion_failed(const char* file, int line, const char* condition) noexcept {
    static_cast<void>(std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition));
    std::abort();
}

}  // namespace deliverd

/// Ends the process when `condition` is false. Evaluates it once, in every build; it must be cheap.
#define ASSERT(...)                                                                         \
    do {                                                                                    \
        if (!(__VA_ARGS__)) ::deliverd::assertion_failed(__FILE__, __LINE__, #__VA_ARGS__); \
    } while (false)
