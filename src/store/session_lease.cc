#include "store/session_lease.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace deliverd::store {
namespace {

/// The ids a call changed, from its answer: what is to be audited.
using Ids = std::vector<std::int64_t>;

class SessionLease final : public Lease {
public:
    SessionLease(OpenSession open, std::optional<std::string> actor, std::int64_t max_payload_bytes)
        : open_(std::move(open)), actor_(std::move(actor)), max_payload_bytes_(max_payload_bytes) {}

    Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                        std::optional<std::int64_t> item_id, std::int64_t max_payload_bytes) override {
        const std::int64_t limit = max_payload_bytes == kDefaultMaxPayloadBytes
                                       ? max_payload_bytes_
                                       : std::min(max_payload_bytes, max_payload_bytes_);
        return change<std::int64_t>(
            {.reason = "lease_enqueue", .status_from = std::nullopt, .worker = std::nullopt},
            [&](Lease& lease) { return lease.enqueue_memory(target_space, payload_md, item_id, limit); },
            [](std::int64_t id) { return Ids{id}; });
    }

    Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id, std::int32_t limit,
                                                double lease_seconds) override {
        return change<std::vector<MemoryRow>>(
            {.reason = "lease_claim", .status_from = "pending", .worker = worker_id},
            [&](Lease& lease) { return lease.claim_outbox(worker_id, limit, lease_seconds); },
            [](const std::vector<MemoryRow>& rows) {
                Ids ids;
                for (const MemoryRow& row : rows) ids.push_back(row.outbox_id);
                return ids;
            });
    }

    Result<bool> ack_sent(std::int64_t outbox_id, std::string_view worker_id,
                          std::optional<std::string_view> memory_id) override {
        return change_one("outbox_flush_success", outbox_id, worker_id,
                          [&](Lease& lease) { return lease.ack_sent(outbox_id, worker_id, memory_id); });
    }

    Result<bool> fail_retry(std::int64_t outbox_id, std::string_view worker_id, std::string_view error,
                            std::string_view next_attempt_at) override {
        return change_one("outbox_flush_retry", outbox_id, worker_id,
                          [&](Lease& lease) { return lease.fail_retry(outbox_id, worker_id, error, next_attempt_at); });
    }

    Result<bool> mark_dead_by_worker(std::int64_t outbox_id, std::string_view worker_id,
                                     std::string_view error) override {
        return change_one("outbox_flush_dead", outbox_id, worker_id,
                          [&](Lease& lease) { return lease.mark_dead_by_worker(outbox_id, worker_id, error); });
    }

    Result<bool> renew_lease(std::int64_t outbox_id, std::string_view worker_id) override {
        return change_one("lease_renew", outbox_id, worker_id,
                          [&](Lease& lease) { return lease.renew_lease(outbox_id, worker_id); });
    }

    /// The protocol answers how many were renewed, not which; the audit wants to know which, so there each one
    /// is asked for by itself.
    Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                           std::string_view worker_id) override {
        auto session = open_();
        if (!session) return Failure(std::move(session.error()));
        Ids renewed;
        if (!actor_ || outbox_ids.empty()) {
            auto count = (*session)->lease().renew_lease_batch(outbox_ids, worker_id);
            return committed(**session, std::move(count));
        }
        for (const std::int64_t id : outbox_ids) {
            auto one = (*session)->lease().renew_lease(id, worker_id);
            if (!one) return Failure(std::move(one.error()));
            if (*one) renewed.push_back(id);
        }
        const LeaseAudit entry{renewed, "lease_renew", "pending", worker_id, *actor_};
        if (auto noted = (*session)->audit(entry); !noted) return Failure(std::move(noted.error()));
        return committed(**session, Result<std::int64_t>(static_cast<std::int64_t>(renewed.size())));
    }

    Result<std::optional<DedupHit>> check_dedup(std::string_view target_space, std::string_view payload_sha) override {
        auto session = open_();
        if (!session) return Failure(std::move(session.error()));
        return (*session)->lease().check_dedup(target_space, payload_sha);
    }

    Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) override {
        auto session = open_();
        if (!session) return Failure(std::move(session.error()));
        return (*session)->lease().show(outbox_id);
    }

private:
    struct Change {
        std::string_view reason;
        std::optional<std::string_view> status_from;
        std::optional<std::string_view> worker;
    };

    template <typename T>
    static Result<T> committed(LeaseSession& session, Result<T> answer) {
        if (!answer) return answer;
        if (auto done = session.commit(); !done) return Failure(std::move(done.error()));
        return answer;
    }

    template <typename T, typename Call, typename Changed>
    Result<T> change(const Change& what, Call call, Changed changed) {
        auto session = open_();
        if (!session) return Failure(std::move(session.error()));
        Result<T> answer = call((*session)->lease());
        if (answer && actor_) {
            const Ids ids = changed(*answer);
            const LeaseAudit entry{ids, what.reason, what.status_from, what.worker, *actor_};
            if (!ids.empty()) {
                if (auto noted = (*session)->audit(entry); !noted) return Failure(std::move(noted.error()));
            }
        }
        return committed(**session, std::move(answer));
    }

    template <typename Call>
    Result<bool> change_one(std::string_view reason, std::int64_t outbox_id, std::string_view worker_id, Call call) {
        return change<bool>({reason, "pending", worker_id}, call,
                            [&](bool applied) { return applied ? Ids{outbox_id} : Ids{}; });
    }

    OpenSession open_;
    std::optional<std::string> actor_;
    std::int64_t max_payload_bytes_;
};

}  // namespace

std::unique_ptr<Lease> make_session_lease(OpenSession open, std::optional<std::string> actor,
                                          std::int64_t max_payload_bytes) {
    return std::make_unique<SessionLease>(std::move(open), std::move(actor), max_payload_bytes);
}

Result<std::vector<std::int64_t>> enqueue_in_session(LeaseSession& session, std::span<const NewMemory> memories,
                                                     std::int64_t max_payload_bytes) {
    std::vector<std::int64_t> ids;
    ids.reserve(memories.size());
    for (const NewMemory& memory : memories) {
        const auto id =
            session.lease().enqueue_memory(memory.target_space, memory.payload_md, memory.item_id, max_payload_bytes);
        if (!id) return Failure(id.error());
        ids.push_back(*id);
    }
    if (auto done = session.commit(); !done) return Failure(std::move(done.error()));
    return ids;
}

}  // namespace deliverd::store
