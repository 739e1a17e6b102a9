// Entries of a spool over HTTP.
#pragma once

#include <memory>

#include "deliverd/spool.h"
#include "sink/http/http_poster.h"

namespace deliverd::daemon {

/// The answer has the poster in it, and is called by one thread at a time.
[[nodiscard]] SpoolSender http_sender(std::shared_ptr<sink::HttpPoster> poster);

}  // namespace deliverd::daemon
