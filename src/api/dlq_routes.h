// Dead letters over HTTP.
//
//   GET    /api/v1/dlq                          counts by topic and state
//   GET    /api/v1/dlq/{topic}                  a page of a topic's letters, newest first
//   POST   /api/v1/dlq/{topic}/retry-all        ?dry_run=true: where the letters would go; changes nothing
//   GET    /api/v1/dlq/messages/{id}            one letter; …/raw its bytes, …/audit what was done to it
//   POST   /api/v1/dlq/messages/{id}/retry      and …/dead
//   DELETE /api/v1/dlq/messages/{id}
//   DELETE /api/v1/dlq?status=…&older_than_seconds=…  the old ones of a state, `limit` at most
//
// A topic called "messages" collides with none of them: its list is two segments short of a letter's path, and
// "retry-all" is no uuid.
#pragma once

#include <string>
#include <vector>

#include "api/api.h"
#include "api/dlq_retries.h"
#include "base/log.h"
#include "deadletter/manager.h"
#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::api {

/// Reading needs viewer, retrying and marking as dead operator, deleting admin. A caller who is limited to topics sees
/// only the letters of its scope; all others are answered as if there were none. Every change goes through `manager`;
/// `letters` are only read. Retries and listings are answered by a thread of `retries`; the others block for one or two
/// calls of the store, a purge for several. All four outlive the handler made of the routes. `pattern`: of the topics
/// for dead letters, to which nothing is sent back.
[[nodiscard]] std::vector<Route> dlq_routes(DlqRetries& retries, deadletter::Manager& manager,
                                            store::DeadLetters& letters, Log& log,
                                            std::string pattern = std::string(deadletter::kDeadLetterPattern));

}  // namespace deliverd::api
