// Dead letters over HTTP: what the seed has, and lists by filter and cursor, the raw bytes, the audit, counts.
//
//   GET    /api/v1/dlq                          counts by topic and state
//   GET    /api/v1/dlq/{topic}                  a page of a topic's letters, newest first
//   POST   /api/v1/dlq/{topic}/retry-all
//   GET    /api/v1/dlq/messages/{id}            one letter; …/raw its bytes, …/audit what was done to it
//   POST   /api/v1/dlq/messages/{id}/retry      and …/dead
//   DELETE /api/v1/dlq/messages/{id}
//   DELETE /api/v1/dlq?status=…&older_than_seconds=…  the old ones of a state, so many at most
//
// A topic called "messages" collides with none of them: its list is two segments short of a letter's path, and
// "retry-all" is no uuid.
#pragma once

#include <string>
#include <vector>

#include "api/api.h"
#include "api/dlq_retries.h"
#include "base/log.h"
#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::api {

/// Looking needs viewer, retrying and marking as dead operator, deleting admin. A caller who is limited to topics meets
/// only the letters of its scope; all others are answered as if there were none. Retries are answered by a thread of
/// `retries`, all others block for one or two calls of the store, a purge for some more. All three outlive the handler
/// made of the routes. `pattern`: of the topics that are for dead letters, where nothing is sent back to.
[[nodiscard]] std::vector<Route> dlq_routes(DlqRetries& retries, store::DeadLetters& letters, Log& log,
                                            std::string pattern = std::string(deadletter::kDeadLetterPattern));

}  // namespace deliverd::api
