// Named places where a test can make the process die or wait.
//
//     DELIVERD_FAILPOINTS="lane.after_send=crash@3"     the process kills itself (-9) the third time it gets there
//     DELIVERD_FAILPOINTS="lane.after_claim=wait@1"     it prints "failpoint lane.after_claim" on standard error
//                                                       and waits there until it is killed
//
// Chosen at link time: `deliverd-failpoints` is the same object files linked with failpoint_on.cc, and the released
// `deliverd` links an empty function. So tests run the code that is released. A point is passed once per batch, never
// once per message.
#pragma once

namespace deliverd {

void failpoint(const char* name) noexcept;

}  // namespace deliverd
