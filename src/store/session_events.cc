#include "store/session_events.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace deliverd::store {
namespace {

constexpr const char* kOpen = "pending";
constexpr const char* kPublished = "published";

std::optional<std::string> text_or_none(std::string_view text) {
    return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

class SessionEvents final : public deliverd::Outbox {
public:
    SessionEvents(OpenEventSession open, std::optional<std::string> actor)
        : open_(std::move(open)), actor_(std::move(actor)) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        return change<std::int64_t>([&](deliverd::Outbox& outbox) { return outbox.add(event); },
                                    [&](std::int64_t id) {
                                        EventAudit entry{.id = id, .reason = "event_added", .actor = {}};
                                        entry.status_to = kOpen;
                                        entry.retry_count = 0;
                                        return std::optional(std::move(entry));
                                    });
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        return look<std::vector<Event>>([&](deliverd::Outbox& outbox) { return outbox.fetch_unpublished(limit); });
    }

    Result<bool> mark_published(std::int64_t id) override {
        return change<bool>([&](deliverd::Outbox& outbox) { return outbox.mark_published(id); },
                            [&](bool marked) -> std::optional<EventAudit> {
                                if (!marked) return std::nullopt;
                                EventAudit entry{.id = id, .reason = "event_marked_published", .actor = {}};
                                entry.status_to = kPublished;
                                return entry;
                            });
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        using Count = std::optional<std::int32_t>;
        return change<Count>([&](deliverd::Outbox& outbox) { return outbox.increment_retry_count(id, error); },
                             [&](const Count& count) -> std::optional<EventAudit> {
                                 if (!count) return std::nullopt;
                                 EventAudit entry{.id = id, .reason = "event_retry_counted", .actor = {}};
                                 entry.status_from = kOpen;
                                 entry.status_to = kOpen;
                                 entry.retry_count = *count;
                                 entry.last_error = text_or_none(error);
                                 return entry;
                             });
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        return change<std::int64_t>(
            [&](deliverd::Outbox& outbox) { return outbox.delete_published(older_than_seconds, limit); },
            [&](std::int64_t deleted) -> std::optional<EventAudit> {
                if (deleted == 0) return std::nullopt;
                EventAudit entry{.id = 0, .reason = "events_deleted", .actor = {}};
                entry.status_from = kPublished;
                entry.detail = fmt::format("{} published longer than {} s ago", deleted, older_than_seconds);
                return entry;
            });
    }

    Result<OutboxStats> stats() override {
        return look<OutboxStats>([](deliverd::Outbox& outbox) { return outbox.stats(); });
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        return look<std::vector<Event>>(
            [&](deliverd::Outbox& outbox) { return outbox.by_aggregate(aggregate_id, limit); });
    }

    Result<std::optional<Event>> show(std::int64_t id) override {
        return look<std::optional<Event>>([&](deliverd::Outbox& outbox) { return outbox.show(id); });
    }

private:
    /// `note` makes the audit's line of the answer; none when nothing changed.
    template <typename T, typename Call, typename Note>
    Result<T> change(Call call, Note note) {
        auto session = open_();
        if (!session) return Failure(std::move(session.error()));
        Result<T> answer = call((*session)->outbox());
        if (!answer) return answer;
        if (actor_) {
            if (std::optional<EventAudit> entry = note(*answer)) {
                entry->actor = *actor_;
                if (auto noted = (*session)->audit(*entry); !noted) return Failure(std::move(noted.error()));
            }
        }
        if (auto done = (*session)->commit(); !done) return Failure(std::move(done.error()));
        return answer;
    }

    template <typename T, typename Call>
    Result<T> look(Call call) {
        auto session = open_();
        if (!session) return Failure(std::move(session.error()));
        return call((*session)->outbox());
    }

    OpenEventSession open_;
    std::optional<std::string> actor_;
};

}  // namespace

std::unique_ptr<deliverd::Outbox> make_session_events(OpenEventSession open, std::optional<std::string> actor) {
    return std::make_unique<SessionEvents>(std::move(open), std::move(actor));
}

}  // namespace deliverd::store
