// The messages without an outcome. Locks once per batch, not per message.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// `Item`: the messages' type. `Receiver` has on_outcome(const Item&, Outcome).
template <typename Item, typename Receiver>
class UnderWay {
public:
    struct Batch;
    struct Job {
        const Item* item = nullptr;
        Batch* batch = nullptr;
        bool alone = false;  // sent by the producer that batches nothing
        bool ended = false;  // written by whoever has the job: one thread at a time
    };
    struct Batch {
        Receiver* receiver = nullptr;
        std::vector<Job> jobs{};
        std::atomic<std::size_t> left{};
    };

    /// The jobs stay where they are until each has ended.
    [[nodiscard]] std::span<Job> add(std::span<const Item* const> items, Receiver& receiver) {
        auto batch = std::make_unique<Batch>();
        batch->receiver = &receiver;
        batch->left = items.size();
        batch->jobs.reserve(items.size());
        for (const auto* item : items) batch->jobs.push_back({item, batch.get()});
        const std::span<Job> jobs(batch->jobs);
        if (jobs.empty()) return jobs;
        const MutexLock lock(mutex_);
        batches_.emplace(batch.get(), std::move(batch));
        return jobs;
    }

    /// Reports the outcome. The job is invalid afterwards; the last one of a batch removes the batch.
    void end(Job& job, Outcome outcome) {
        Batch& batch = *job.batch;
        ASSERT(!job.ended);
        batch.receiver->on_outcome(*job.item, std::move(outcome));
        job.ended = true;
        if (batch.left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        const MutexLock lock(mutex_);
        batches_.erase(&batch);
        if (batches_.empty()) none_.notify_all();
    }

    /// Whether nothing is under way any more. Blocks for at most `patience`.
    [[nodiscard]] bool wait_for_none(Duration patience) {
        const MutexLock lock(mutex_);
        return none_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return batches_.empty(); });
    }

    /// Ends what is left with `outcome`. Only when nobody else ends jobs any more.
    void end_all(const Outcome& outcome) {
        const MutexLock lock(mutex_);
        for (const auto& [key, batch] : batches_) {
            for (const auto& job : batch->jobs) {
                if (!job.ended) batch->receiver->on_outcome(*job.item, outcome);
            }
        }
        batches_.clear();
    }

private:
    Mutex mutex_;
    Condition none_;
    std::unordered_map<Batch*, std::unique_ptr<Batch>> batches_ GUARDED_BY(mutex_);  // bounded by `parallelism`
};

}  // namespace deliverd::sink
