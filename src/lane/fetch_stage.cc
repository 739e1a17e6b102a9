#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"
#include "lane/stages.h"

namespace deliverd::lane {

FetchStage::FetchStage(Shared& shared, std::uint64_t seed)
    : shared_(shared),
      random_(seed),
      pacer_(shared.options.busy_poll, shared.options.idle_poll),
      budget_(shared.options.held_bytes) {}

std::size_t FetchStage::room() const {
    const auto batch_size = static_cast<std::size_t>(shared_.options.batch_size);
    const std::size_t held = shared_.book.size();
    // A whole batch must fit behind one that is not sent yet: see the assertion in take().
    if (shared_.claimed.size() > batch_size || held + batch_size > shared_.held_limit()) return 0;
    if (shared_.settles_refused.load()) return 1;
    // Rows of a megabyte, held four batches deep, took 400 MB.
    return std::min(budget_.room(held, shared_.book.bytes()), batch_size);
}

Instant FetchStage::step() {
    const Instant began = shared_.clock.now();
    const Instant nap = began + kLongestNap;
    // What is claimed now would only be given back.
    if (shared_.control.draining.load()) return nap;
    // Rows claimed during a pause would wait here with a running lease, and other workers could not take them.
    if (shared_.limit.paused(began)) return std::min(shared_.limit.paused_until(), nap);
    const std::size_t limit = room();
    if (limit == 0) return nap;
    const Instant after_refusal =
        shared_.settles_refused.load() ? last_claim_ + pipeline::kReadIntervalWhileRefused : Instant::min();
    const Instant next_poll = std::max(pacer_.next_poll(), after_refusal);
    if (began < next_poll) return next_poll;

    const store::ClaimRequest request{shared_.options.worker_id, static_cast<std::int32_t>(limit),
                                      shared_.options.lease, pacer_.position(began)};
    Result<store::ClaimBatch> batch =
        shared_.reporter.call(shared_.clock, "claim", 0, [&] { return shared_.outbox.claim(request); });
    const Instant ended = shared_.clock.now();
    if (!batch) {
        // If the claim did commit, its rows come back when their lease runs out.
        pacer_.failed(began, ended, !request.after.has_value(), random_);
        return pacer_.next_poll();
    }
    const std::size_t rows = batch->rows.size();
    last_claim_ = ended;
    shared_.reporter.claimed(rows);
    pacer_.polled(began, ended, !request.after.has_value(), rows, limit, batch->last);
    if (rows == 0) return pacer_.next_poll();
    // A crash here leaves rows that no worker sends until their lease runs out.
    failpoint("lane.after_claim");
    take(std::move(*batch), began);
    return Instant::min();
}

void FetchStage::take(store::ClaimBatch batch, Instant began) {
    std::vector<store::Claimed> rows;
    rows.reserve(batch.rows.size());
    for (store::Claimed& row : batch.rows) {
        shared_.observer().on_lag(row.age_seconds);
        budget_.on_row(row.message.body.size());
        // One that is still under way here is sent again only once that has ended.
        // The lease is counted from before the call, so that it never ends earlier than the book assumes.
        if (shared_.book.add(row, began)) rows.push_back(std::move(row));
    }
    // room() left space for the whole batch, and no other stage pushes.
    const std::size_t pushed = shared_.claimed.try_push_some(rows.begin(), rows.end());
    ASSERT(pushed == rows.size());
    shared_.control.signals.send.poke();
}

}  // namespace deliverd::lane
