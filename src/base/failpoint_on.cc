#include "base/failpoint.h"

namespace deliverd {

void failpoint(const char* /*name*/) noexcept {}

}  // namespace deliverd
