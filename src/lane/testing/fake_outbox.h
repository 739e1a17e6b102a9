// An outbox in memory that keeps the promises of store/row_queue.h, and a log of what was done to it:
// for the lane's own tests and the simulator. The real stores are held to the same promises by the
// conformance suite.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "store/row_queue.h"

namespace deliverd::lane {

class FakeOutbox final : public store::RowQueue {
public:
    struct Row {
        std::string dedup_key;
        std::string status = "pending";
        std::int32_t failures = 0;
        Duration due{};
        Duration locked_at{};
        std::optional<std::string> locked_by;
        std::optional<std::string> last_error;
        std::optional<std::string> receipt;
    };
    struct Claim {
        std::int64_t id;
        std::string worker;
        bool from_live_holder;  // the lease of another worker had run out
    };
    struct Applied {
        std::string worker;
        store::Settlement settlement;
        std::string owner_by_log;  // who claimed the row last
    };

    /// `database_now` is the database's clock.
    explicit FakeOutbox(std::function<Duration()> database_now) : database_now_(std::move(database_now)) {}

    std::int64_t enqueue(std::string dedup_key) {
        const std::lock_guard lock(mutex_);
        const std::int64_t id = static_cast<std::int64_t>(rows_.size()) + 1;
        Row row;
        row.dedup_key = std::move(dedup_key);
        row.due = database_now_();
        rows_.emplace(id, std::move(row));
        return id;
    }

    Result<store::ClaimBatch> claim(const store::ClaimRequest& request) override {
        const std::lock_guard lock(mutex_);
        const Duration now = database_now_();
        std::vector<std::pair<Duration, std::int64_t>> open;
        for (const auto& [id, row] : rows_) {
            const bool free = !row.locked_by || (claims_expired && row.locked_at < now - request.lease);
            if (row.status == "pending" && row.due <= now && free && behind(request.after, row.due, id)) {
                open.emplace_back(row.due, id);
            }
        }
        std::sort(open.begin(), open.end());
        if (open.size() > static_cast<std::size_t>(request.limit)) open.resize(static_cast<std::size_t>(request.limit));
        store::ClaimBatch batch;
        for (const auto& [due, id] : open) {
            Row& row = rows_.at(id);
            claims.push_back({id, request.worker_id, row.locked_by && row.locked_by != request.worker_id});
            row.locked_by = request.worker_id;
            row.locked_at = now;
            batch.rows.push_back(describe(id, row, now));
            batch.last = store::Cursor{std::to_string(due.count()), id};
        }
        return batch;
    }

    Result<std::vector<store::SettleAnswer>> settle(std::string_view worker_id,
                                                    std::span<const store::Settlement> settlements) override {
        const std::lock_guard lock(mutex_);
        std::vector<store::SettleAnswer> answers;
        for (const store::Settlement& settlement : settlements) {
            Row& row = rows_.at(settlement.id);
            const bool ours =
                row.status == "pending" && row.locked_by == worker_id && row.failures == settlement.failures_before;
            if (ours) apply(row, std::string(worker_id), settlement);
            std::optional<store::RowState> state;
            if (!ours)
                state = store::RowState{store::phase_of(row.status), row.status, row.failures, row.locked_by,
                                        row.last_error};
            answers.push_back({settlement.id, ours, std::move(state)});
        }
        return answers;
    }

    Result<store::RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) override {
        const std::lock_guard lock(mutex_);
        store::RenewAnswer answer;
        for (const std::int64_t id : ids) {
            Row& row = rows_.at(id);
            if (row.status != "pending" || row.locked_by != worker_id) {
                answer.lost.push_back(id);
                continue;
            }
            row.locked_at = database_now_();
            answer.renewed.push_back(id);
        }
        return answer;
    }

    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) override {
        const std::lock_guard lock(mutex_);
        std::int64_t released = 0;
        for (const std::int64_t id : ids) {
            Row& row = rows_.at(id);
            if (row.status != "pending" || row.locked_by != worker_id) continue;
            row.locked_by.reset();
            ++released;
        }
        return released;
    }

    Result<std::int64_t> rescue(std::string_view, Duration stuck_for) override {
        const std::lock_guard lock(mutex_);
        ++rescue_calls;
        if (claims_expired) return 0;
        std::int64_t freed = 0;
        for (auto& [id, row] : rows_) {
            const bool stuck = row.status == "pending" && row.locked_by && row.locked_at < database_now_() - stuck_for;
            if (!stuck) continue;
            row.locked_by.reset();
            rescued.push_back(id);
            ++freed;
        }
        return freed;
    }

    Result<void> audit(std::string_view, std::span<const store::AuditNote> written) override {
        const std::lock_guard lock(mutex_);
        notes.insert(notes.end(), written.begin(), written.end());
        return {};
    }

    Result<double> lag_seconds() override { return 0.0; }

    Result<store::RowCounts> counts() override {
        const std::lock_guard lock(mutex_);
        store::RowCounts counts;
        for (const auto& [id, row] : rows_) {
            (row.status == "sent" ? counts.sent : row.status == "dead" ? counts.dead : counts.pending) += 1;
        }
        return counts;
    }

    Result<void> ping(Duration) override { return {}; }

    /// Who holds a row at this moment, one entry a held row.
    std::vector<std::string> holders() {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> holders;
        for (const auto& [id, row] : rows_) {
            if (row.locked_by) holders.push_back(*row.locked_by);
        }
        return holders;
    }
    Duration locked_at(std::int64_t id) {
        const std::lock_guard lock(mutex_);
        return rows_.at(id).locked_at;
    }

    /// Only while no lane is at work.
    [[nodiscard]] const std::map<std::int64_t, Row>& rows() const { return rows_; }
    std::map<std::int64_t, Row>& rows() { return rows_; }

    std::string body;            // of every message
    bool claims_expired = true;  // false: a lease that ran out is only freed by rescue()
    std::vector<std::int64_t> rescued;
    int rescue_calls = 0;
    std::vector<Claim> claims;
    std::vector<Applied> applied;
    std::vector<store::AuditNote> notes;

private:
    static bool behind(const std::optional<store::Cursor>& after, Duration due, std::int64_t id) {
        if (!after) return true;
        return std::tuple(due.count(), id) > std::tuple(Duration::rep{std::stoll(after->due_at)}, after->id);
    }

    store::Claimed describe(std::int64_t id, const Row& row, Duration now) const {
        store::Claimed claimed;
        claimed.message.id = id;
        claimed.message.message_id = "fake-" + std::to_string(id);
        claimed.message.dedup_key = row.dedup_key;
        claimed.message.body = body;
        claimed.message.failures = row.failures;
        claimed.age_seconds = to_seconds(now - row.due);
        for (const auto& [other_id, other] : rows_) {
            if (row.dedup_key.empty() || other.status != "sent" || other.dedup_key != row.dedup_key) continue;
            claimed.duplicate = true;
            claimed.duplicate_receipt = other.receipt;
            break;
        }
        return claimed;
    }

    void apply(Row& row, std::string worker, const store::Settlement& settlement) {
        const auto last_claim =
            std::find_if(claims.rbegin(), claims.rend(), [&](const Claim& claim) { return claim.id == settlement.id; });
        applied.push_back({std::move(worker), settlement, last_claim->worker});
        row.locked_by.reset();
        switch (settlement.kind) {
            case store::SettleKind::sent:
            case store::SettleKind::duplicate:
                row.status = "sent";
                row.receipt = settlement.receipt;
                row.last_error.reset();
                return;
            case store::SettleKind::dead:
                row.status = "dead";
                break;
            case store::SettleKind::retry:
                row.due = database_now_() + settlement.delay;
                break;
        }
        row.failures += 1;
        row.last_error = settlement.error;
    }

    std::function<Duration()> database_now_;
    std::mutex mutex_;
    std::map<std::int64_t, Row> rows_;
};

}  // namespace deliverd::lane
