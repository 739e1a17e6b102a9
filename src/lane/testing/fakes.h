// For the lane's tests: a way to the outbox that can be switched off.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "lane/testing/fake_outbox.h"
#include "pipeline/testing/fakes.h"

namespace deliverd::lane {

using pipeline::eventually;
using pipeline::RecordingLog;
using pipeline::ScriptedSink;

/// Refuses calls while told to.
class SwitchedOutbox final : public store::RowQueue {
public:
    explicit SwitchedOutbox(FakeOutbox& inner) : inner_(inner) {}

    Result<store::ClaimBatch> claim(const store::ClaimRequest& request) override {
        if (down) return away();
        return inner_.claim(request);
    }
    Result<std::vector<store::SettleAnswer>> settle(std::string_view worker,
                                                    std::span<const store::Settlement> settlements) override {
        ++settle_calls;
        if (down || settle_fails) return away();
        for (const store::Settlement& settlement : settlements) {
            if (refuse_all || settlement.id == poison) return permanent("db_error", "cannot be stored");
        }
        std::vector<store::Settlement> free;
        for (const store::Settlement& settlement : settlements) {
            if (settlement.id != busy) free.push_back(settlement);
        }
        auto answers = inner_.settle(worker, free);
        for (std::size_t i = 0; i < settlements.size(); ++i) {
            if (settlements[i].id != busy) continue;
            store::RowState row{.phase = store::RowPhase::open, .status = "pending", .locked_by = std::string(worker)};
            answers->insert(answers->begin() + static_cast<std::ptrdiff_t>(i), {busy, false, std::move(row)});
        }
        if (settle_answers_lost) return ambiguous("db_error", "the answer was lost");
        return answers;
    }
    Result<store::RenewAnswer> renew(std::string_view worker, std::span<const std::int64_t> ids) override {
        ++renew_calls;
        if (down || renew_fails) return away();
        return inner_.renew(worker, ids);
    }
    Result<std::int64_t> release(std::string_view worker, std::span<const std::int64_t> ids) override {
        if (down) return away();
        return inner_.release(worker, ids);
    }
    Result<std::int64_t> rescue(std::string_view worker, Duration stuck_for) override {
        if (down) return away();
        return inner_.rescue(worker, stuck_for);
    }
    Result<void> audit(std::string_view worker, std::span<const store::AuditNote> notes) override {
        if (down) return away();
        return inner_.audit(worker, notes);
    }
    Result<double> lag_seconds() override { return inner_.lag_seconds(); }
    Result<store::RowCounts> counts() override { return inner_.counts(); }
    Result<void> ping(Duration) override { return {}; }

    std::atomic<bool> down{false};
    std::atomic<bool> renew_fails{false};
    std::atomic<bool> settle_fails{false};
    std::atomic<bool> settle_answers_lost{false};  // it took effect
    std::atomic<std::int64_t> poison{0};
    std::atomic<bool> refuse_all{false};
    std::atomic<std::int64_t> busy{0};  // locked by someone
    std::atomic<int> settle_calls{0};
    std::atomic<int> renew_calls{0};

private:
    static Failure away() { return retryable("db_unreachable", "switched off"); }
    FakeOutbox& inner_;
};

}  // namespace deliverd::lane
