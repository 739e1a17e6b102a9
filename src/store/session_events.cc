#include "store/session_events.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace deliverd::store {
namespace {

constexpr const char* kOpen = "pending";
constexpr const char* kPublished = "published";

using deliverd::Outbox;

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

}  // namespace

std::unique_ptr<deliverd::Outbox> make_session_events(Sessions<Outbox, EventAudit>::Open open,
                                                      std::optional<std::string> actor) {
    return std::make_unique<SessionEvents>(Sessions<Outbox, EventAudit>(std::move(open), std::move(actor)));
}

}  // namespace deliverd::store
