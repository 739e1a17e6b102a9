#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace deliverd {

void assertion_failed(const char* file, int line, const char* condition) noexcept {
    static_cast<void>(std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition));
    std::abort();
}

}  // namespace deliverd
