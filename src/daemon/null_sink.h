// A sink that delivers into nothing: what a lane costs without a receiver. For benchmarks (`sink: {type: none}`).
#pragma once

#include <memory>

#include "sink/sink.h"

namespace deliverd::daemon {

/// Reports every message as delivered before send() returns.
[[nodiscard]] std::unique_ptr<sink::Sink> make_null_sink();

}  // namespace deliverd::daemon
