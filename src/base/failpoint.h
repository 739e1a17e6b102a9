// Named places where a test may make the process die or wait. Only the program built for tests
// (deliverd-failpoints) links an implementation that does anything; the released one links an empty function.
//
//     DELIVERD_FAILPOINTS="lane.after_send=crash@3"     kill -9 itself the third time it gets there
//     DELIVERD_FAILPOINTS="lane.after_claim=wait@1"     print "failpoint lane.after_claim" on standard error
//                                                       and stay there until killed
//
// Points are passed once a batch, never once a message.
#pragma once

namespace deliverd {

void failpoint(const char* name) noexcept;

}  // namespace deliverd
