#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "lane/stages.h"

namespace deliverd::lane {

FetchStage::FetchStage(Shared& shared, std::uint64_t seed)
    : shared_(shared), random_(seed), pacer_(shared.options.busy_poll, shared.options.idle_poll) {}

std::size_t FetchStage::room() const {
    const auto batch_size = static_cast<std::size_t>(shared_.options.batch_size);
    const std::size_t held = shared_.book.size();
    if (shared_.claimed.size() > batch_size || held + batch_size > shared_.held_limit()) return 0;
    // How large rows are is known only from those claimed before: the first batch may be too large.
    const std::size_t bytes = shared_.book.bytes();
    if (shared_.settles_refused.load()) return 1;
    if (held > 0 && bytes + typical_bytes_ > shared_.options.held_bytes) return 0;
    const std::size_t left = shared_.options.held_bytes - std::min(bytes, shared_.options.held_bytes);
    return std::clamp<std::size_t>(left / std::max<std::size_t>(typical_bytes_, 1), 1, batch_size);
}

Step FetchStage::step() {
    const Instant began = shared_.clock.now();
    if (shared_.draining.load()) return {false, began + kLongestNap};
    if (shared_.paused(began)) return {false, std::min(Instant(shared_.paused_until.load()), began + kLongestNap)};
    const std::size_t limit = room();
    if (limit == 0) return {false, began + kLongestNap};
    const Instant next_look = std::max(pacer_.next_look(), refused_until());
    if (began < next_look) return {false, next_look};

    store::ClaimRequest request{shared_.options.worker_id, static_cast<std::int32_t>(limit), shared_.options.lease,
                                pacer_.position(began)};
    Result<store::ClaimBatch> batch = shared_.timed("claim", [&] { return shared_.outbox.claim(request); });
    const Instant ended = shared_.clock.now();
    if (!batch) {
        shared_.database_failed("claim", batch.error(), 0);
        pacer_.failed(began, ended, !request.after.has_value(), random_);
        return {false, pacer_.next_look()};
    }
    const std::size_t rows = batch->rows.size();
    last_claim_ = ended;
    shared_.observer.on_claimed(rows);
    pacer_.looked(began, ended, !request.after.has_value(), rows, limit, batch->last);
    if (rows > 0) {
        failpoint("lane.after_claim");
        take(std::move(*batch), began);
    }
    return {rows > 0, pacer_.next_look()};
}

/// While the database takes claims but refuses settles, each row claimed is a row sent in vain: one now and then
/// finds out whether that is over.
Instant FetchStage::refused_until() const {
    return shared_.settles_refused.load() ? last_claim_ + kClaimIntervalWhileRefused : Instant{};
}

void FetchStage::take(store::ClaimBatch batch, Instant began) {
    shared_.tally.add(&LaneTotals::claimed, batch.rows.size());
    std::vector<store::Claimed> rows;
    rows.reserve(batch.rows.size());
    for (store::Claimed& row : batch.rows) {
        shared_.observer.on_lag(row.age_seconds);
        const std::size_t bytes = row.message.body.size();
        typical_bytes_ = std::max(bytes, typical_bytes_ - typical_bytes_ / 64);  // follows large rows at once
        // One that is still under way here is sent again only once that has ended.
        if (shared_.book.add(row, began)) rows.push_back(std::move(row));
    }
    // room() left space for the whole batch, and nobody else pushes.
    shared_.claimed.try_push_some(rows.begin(), rows.end());
    shared_.signals.send.poke();
}

}  // namespace deliverd::lane
