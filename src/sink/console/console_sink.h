// Prints each message as one JSON line on a stream: for trying things out.
#pragma once

#include <cstdio>
#include <memory>

#include "sink/sink.h"

namespace deliverd::sink {

/// `stream` outlives the sink. A line is delivered once it was written and flushed; a failed write is
/// retryable when nothing was written, ambiguous otherwise.
[[nodiscard]] std::unique_ptr<Sink> make_console_sink(std::FILE* stream);

}  // namespace deliverd::sink
