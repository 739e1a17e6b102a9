#include "store/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/try.h"

namespace deliverd::store {
namespace {

/// A session for each call.
template <typename Protocol, typename Audit>
class Sessions {
public:
    Sessions(OpenSession<Protocol, Audit> open, std::optional<std::string> actor)
        : open_(std::move(open)), actor_(std::move(actor)) {}

    [[nodiscard]] bool audited() const { return actor_.has_value(); }

    /// `note` makes the audit's entry of the answer; none if nothing changed.
    template <typename Call, typename Note>
    std::invoke_result_t<Call, Protocol&> change(Call call, Note note) const {
        TRY_ASSIGN(const auto session, open_());
        TRY_ASSIGN(auto answer, call(*session.protocol));
        if (std::optional<Audit> entry = actor_ ? note(answer) : std::nullopt) {
            entry->actor = *actor_;
            TRY(session.audit(*entry));
        }
        TRY(session.commit());
        return answer;
    }

    template <typename Call>
    std::invoke_result_t<Call, Protocol&> look(Call call) const {
        TRY_ASSIGN(const auto session, open_());
        return call(*session.protocol);
    }

private:
    OpenSession<Protocol, Audit> open_;
    std::optional<std::string> actor_;
};

constexpr const char* kOpen = "pending";
constexpr const char* kPublished = "published";

class SessionEvents final : public Outbox {
public:
    explicit SessionEvents(Sessions<Outbox, EventAudit> sessions) : sessions_(std::move(sessions)) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        return sessions_.change([&](Outbox& outbox) { return outbox.add(event); },
                                [](std::int64_t id) {
                                    return std::optional(EventAudit{
                                        .id = id, .reason = "event_added", .status_to = kOpen, .retry_count = 0});
                                });
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        return sessions_.look([&](Outbox& outbox) { return outbox.fetch_unpublished(limit); });
    }

    Result<bool> mark_published(std::int64_t id) override {
        return sessions_.change([&](Outbox& outbox) { return outbox.mark_published(id); },
                                [&](bool marked) -> std::optional<EventAudit> {
                                    if (!marked) return std::nullopt;
                                    return EventAudit{
                                        .id = id, .reason = "event_marked_published", .status_to = kPublished};
                                });
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        return sessions_.change([&](Outbox& outbox) { return outbox.increment_retry_count(id, error); },
                                [&](std::optional<std::int32_t> count) -> std::optional<EventAudit> {
                                    if (!count) return std::nullopt;
                                    EventAudit entry{.id = id,
                                                     .reason = "event_retry_counted",
                                                     .status_from = kOpen,
                                                     .status_to = kOpen,
                                                     .retry_count = *count};
                                    if (!error.empty()) entry.last_error = error;
                                    return entry;
                                });
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        return sessions_.change([&](Outbox& outbox) { return outbox.delete_published(older_than_seconds, limit); },
                                [&](std::int64_t deleted) -> std::optional<EventAudit> {
                                    if (deleted == 0) return std::nullopt;
                                    return EventAudit{.reason = "events_deleted",
                                                      .status_from = kPublished,
                                                      .detail = fmt::format("{} published longer than {} s ago",
                                                                            deleted, older_than_seconds)};
                                });
    }

    Result<OutboxStats> stats() override {
        return sessions_.look([](Outbox& outbox) { return outbox.stats(); });
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        return sessions_.look([&](Outbox& outbox) { return outbox.by_aggregate(aggregate_id, limit); });
    }

    Result<std::optional<Event>> show(std::int64_t id) override {
        return sessions_.look([&](Outbox& outbox) { return outbox.show(id); });
    }

private:
    const Sessions<Outbox, EventAudit> sessions_;
};

using Ids = std::vector<std::int64_t>;

/// What the audit notes of a change by a worker; none if no row changed.
std::optional<LeaseAudit> note_of(std::string_view reason, Ids ids, std::string_view worker_id) {
    if (ids.empty()) return std::nullopt;
    return LeaseAudit{
        .ids = std::move(ids), .reason = reason, .status_from = "pending", .worker = std::string(worker_id)};
}

class SessionLease final : public Lease {
public:
    SessionLease(Sessions<Lease, LeaseAudit> sessions, std::int64_t max_payload_bytes)
        : sessions_(std::move(sessions)), max_payload_bytes_(max_payload_bytes) {}

    Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                        std::optional<std::int64_t> item_id, std::int64_t max_payload_bytes) override {
        // A caller that did not choose a limit passes the protocol's, which may be below the configured one.
        const std::int64_t limit = max_payload_bytes == kDefaultMaxPayloadBytes
                                       ? max_payload_bytes_
                                       : std::min(max_payload_bytes, max_payload_bytes_);
        return sessions_.change(
            [&](Lease& lease) { return lease.enqueue_memory(target_space, payload_md, item_id, limit); },
            [](std::int64_t id) { return std::optional(LeaseAudit{.ids = {id}, .reason = "lease_enqueue"}); });
    }

    Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id, std::int32_t limit,
                                                double lease_seconds) override {
        return sessions_.change([&](Lease& lease) { return lease.claim_outbox(worker_id, limit, lease_seconds); },
                                [&](const std::vector<MemoryRow>& rows) {
                                    Ids ids;
                                    for (const MemoryRow& row : rows) ids.push_back(row.outbox_id);
                                    return note_of("lease_claim", std::move(ids), worker_id);
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

    /// The protocol answers how many were renewed, not which. The audit wants to know which, so with an audit each row
    /// is renewed by itself.
    Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                           std::string_view worker_id) override {
        Ids renewed;
        return sessions_.change(
            [&](Lease& lease) -> Result<std::int64_t> {
                if (!sessions_.audited() || outbox_ids.empty()) return lease.renew_lease_batch(outbox_ids, worker_id);
                for (const std::int64_t id : outbox_ids) {
                    TRY_ASSIGN(const bool one, lease.renew_lease(id, worker_id));
                    if (one) renewed.push_back(id);
                }
                return static_cast<std::int64_t>(renewed.size());
            },
            [&](std::int64_t) { return note_of("lease_renew", renewed, worker_id); });
    }

    Result<std::optional<DedupHit>> check_dedup(std::string_view target_space, std::string_view payload_sha) override {
        return sessions_.look([&](Lease& lease) { return lease.check_dedup(target_space, payload_sha); });
    }

    Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) override {
        return sessions_.look([&](Lease& lease) { return lease.show(outbox_id); });
    }

private:
    template <typename Call>
    Result<bool> change_one(std::string_view reason, std::int64_t outbox_id, std::string_view worker_id, Call call) {
        return sessions_.change(
            call, [&](bool applied) { return note_of(reason, applied ? Ids{outbox_id} : Ids{}, worker_id); });
    }

    const Sessions<Lease, LeaseAudit> sessions_;
    const std::int64_t max_payload_bytes_;
};

}  // namespace

std::unique_ptr<deliverd::Outbox> make_session_events(OpenSession<Outbox, EventAudit> open,
                                                      std::optional<std::string> actor) {
    return std::make_unique<SessionEvents>(Sessions<Outbox, EventAudit>(std::move(open), std::move(actor)));
}

std::unique_ptr<Lease> make_session_lease(OpenSession<Lease, LeaseAudit> open, std::optional<std::string> actor,
                                          std::int64_t max_payload_bytes) {
    return std::make_unique<SessionLease>(Sessions<Lease, LeaseAudit>(std::move(open), std::move(actor)),
                                          max_payload_bytes);
}

Result<std::vector<std::int64_t>> enqueue_in_session(LeaseSession& session, std::span<const NewMemory> memories,
                                                     std::int64_t max_payload_bytes) {
    std::vector<std::int64_t> ids;
    ids.reserve(memories.size());
    for (const NewMemory& memory : memories) {
        TRY_ASSIGN(const auto id, session.protocol->enqueue_memory(memory.target_space, memory.payload_md,
                                                                   memory.item_id, max_payload_bytes));
        ids.push_back(id);
    }
    TRY(session.commit());
    return ids;
}

}  // namespace deliverd::store
