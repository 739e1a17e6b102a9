// Prints each message as one JSON line on a stream: for trying things out.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>

#include "sink/sink.h"

namespace deliverd::sink {

/// `stream` outlives the sink. A line is delivered once it was written and flushed; a failed write is
/// retryable when nothing was written, ambiguous otherwise. send() writes on the caller's thread; a reader
/// that has stopped reading its pipe holds it for at most `write_timeout` a message. A closed pipe is a
/// failed write and raises no SIGPIPE.
[[nodiscard]] std::unique_ptr<Sink> make_console_sink(std::FILE* stream,
                                                      Duration write_timeout = std::chrono::seconds(5));

}  // namespace deliverd::sink
