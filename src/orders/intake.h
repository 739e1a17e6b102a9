// Stores orders in groups. A commit waits for the disk; orders that are posted meanwhile share the next commit. Each
// caller waits for the commit that holds its own order. Keys are inserted in sorted order, so that two groups never
// deadlock.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "base/bounded_queue.h"
#include "base/log.h"
#include "base/mutex.h"
#include "deliverd/result.h"
#include "store/orders.h"

namespace deliverd::orders {

struct IntakeOptions {
    std::size_t writers = 2;         // threads; each stores one group at a time
    std::size_t batch_size = 64;     // orders per group
    std::size_t max_waiting = 4096;  // further orders are refused at once: `overloaded`
    /// Called for each order that the database answered for, before its caller gets the answer. Thread-safe, quick; may
    /// be empty.
    std::function<void(store::AcceptKind)> on_stored{};
};

class Intake {
public:
    /// The result of one submit(): the store's errors (store/orders.h), or `overloaded` (retryable: nothing was
    /// stored). Called once, from a writer's thread or from within submit(); must be quick.
    using Done = std::function<void(Result<store::AcceptAnswer>)>;

    /// Starts the writers. `orders` and `log` must outlive this object.
    Intake(const IntakeOptions& options, store::Orders& orders, Log& log);
    ~Intake();  // stop()

    /// Does not block. A group that the database refuses permanently is tried order by order, so that one bad order
    /// fails alone.
    void submit(store::NewOrder order, Done done);

    /// Stores the orders that wait, then joins the writers. Later submits are refused as `overloaded`. Idempotent.
    /// Blocks as long as the store's calls do.
    void stop();

private:
    struct Waiting {
        store::NewOrder order;
        Done done;
    };
    void write_until_closed();
    void store_group(std::vector<Waiting>& group);
    /// Stops at the first error that is not permanent.
    void store_one_by_one(std::vector<Waiting>& group, std::span<const store::NewOrder> batch);
    Result<std::vector<store::AcceptAnswer>> accept(std::span<const store::NewOrder> batch);

    const IntakeOptions options_;
    store::Orders& orders_;
    Log& log_;
    std::atomic<bool> failing_ = false;
    BoundedQueue<Waiting> queue_;
    Mutex stop_mutex_;
    std::vector<std::thread> writers_ GUARDED_BY(stop_mutex_);
};

}  // namespace deliverd::orders
