#include "wal/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace deliverd::wal {

Waker::Waker() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Waker::~Waker() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

void Waker::wake() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(descriptor_, &one, sizeof one));  // full: it is awake anyway
}

void Waker::clear() {
    std::uint64_t count = 0;
    static_cast<void>(!::read(descriptor_, &count, sizeof count));
}

}  // namespace deliverd::wal
