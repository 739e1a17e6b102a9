// Stores orders in groups: whoever posts while a commit is on its way to the disk shares the next one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "store/orders.h"

namespace deliverd::orders {

struct IntakeOptions {
    std::size_t writers = 2;         // threads, each with one group on its way
    std::size_t batch_size = 64;     // orders a group
    std::size_t max_waiting = 4096;  // further ones are refused at once: `overloaded`
    /// Told how each order ended that the database answered for, before its caller is; thread-safe, quick. May be
    /// empty.
    std::function<void(store::AcceptKind)> on_stored{};
};

class Intake {
public:
    /// How the order of one submit() ended; the errors are store/orders.h's and `overloaded` (retryable: nothing was
    /// stored). Called once, from a writer's thread or from within submit(); must be quick.
    using Done = std::function<void(Result<store::AcceptAnswer>)>;

    /// `orders` and `log` outlive it. Starts the writers.
    Intake(const IntakeOptions& options, store::Orders& orders, Log& log);
    ~Intake();  // stop()

    /// Returns at once. A group that the database refuses for good is tried order by order, so that one bad order
    /// fails alone.
    void submit(store::NewOrder order, Done done);

    /// Stores what waits, then joins the writers. Later submits are refused as `overloaded`. Idempotent. Blocks for as
    /// long as the store's calls may.
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace deliverd::orders
