// A store's own connection on which a person or program uses one of the public protocols: one call is one transaction,
// and with an actor every change leaves a line in outbox_audit, written in that transaction.
#pragma once

#include <functional>
#include <memory>

#include "deliverd/result.h"

namespace deliverd::store {

/// A borrowed connection inside a transaction. The destructor rolls back what was not committed.
template <typename Protocol, typename Audit>
class Session {
public:
    virtual ~Session() = default;
    virtual Protocol& protocol() = 0;
    virtual Result<void> audit(const Audit& entry) = 0;
    virtual Result<void> commit() = 0;
};

template <typename OfSession>
using OpenSession = std::function<Result<std::unique_ptr<OfSession>>()>;

}  // namespace deliverd::store
