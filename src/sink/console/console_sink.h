// Prints each message as one JSON line on a stream: for trying deliverd out.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>

#include "sink/sink.h"

namespace deliverd::sink {

/// `stream` outlives the sink. A message is delivered once its line was written; a failed write is retryable when
/// nothing was written, ambiguous otherwise. send() writes on the caller's thread; a reader that has stopped reading
/// its pipe delays it by at most `write_timeout` per message. A closed pipe is a failed write and raises no SIGPIPE.
[[nodiscard]] std::unique_ptr<Sink> make_console_sink(std::FILE* stream,
                                                      Duration write_timeout = std::chrono::seconds(5));

}  // namespace deliverd::sink
