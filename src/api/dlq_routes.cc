#include "api/dlq_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/dlq_answers.h"
#include "api/dlq_query.h"
#include "base/json_object.h"
#include "base/text.h"
#include "base/uuid.h"
#include "deadletter/letter_json.h"
#include "deadletter/retry_rules.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxTopicBytes = 255;  // Kafka's names have 249 at most

constexpr std::string_view kDlqPath = "/api/v1/dlq";
constexpr std::int32_t kMaxAuditLines = 1000;
constexpr std::size_t kMaxShownIdBytes = 256;
constexpr std::int32_t kPurgePiece = 500;  // letters deleted in one transaction

http::Response json(std::string body) {
    return {200, {}, "application/json", std::move(body)};
}

/// The handlers of one store. Copied into each route.
class Desk {
public:
    Desk(store::DeadLetters& letters, Log& log, std::string pattern)
        : letters_(&letters), log_(&log), pattern_(std::move(pattern)) {}

    [[nodiscard]] http::Response topics(const Call& call) const {
        auto found = letters_->topics();
        if (!found) return failure(found.error(), call);
        std::erase_if(*found, [&](const auto& counts) { return !call.caller.scope.allows(counts.topic); });
        return json(deadletter::topics_json(*found));
    }

    /// What a caller is answered who may not see the letter: the same as if there were none. None when it may.
    [[nodiscard]] std::optional<http::Response> out_of_scope(const Call& call, const std::string& id) const {
        if (!call.caller.scope.is_limited()) return std::nullopt;
        const auto letter = letters_->find(id);
        if (!letter) return failure(letter.error(), call);
        if (*letter && call.caller.scope.allows((*letter)->letter)) return std::nullopt;
        return dlq_not_found(id, call.request_id);
    }

    [[nodiscard]] http::Response list(const Call& call) const {
        DlqListing listing = read_dlq_listing(call.request.query);
        if (!listing.problems.empty()) return invalid(listing.problems, call);
        listing.query.topic = call.path_values.front();
        auto page = letters_->list(listing.query);
        if (!page) return failure(page.error(), call);
        return json(deadletter::page_json(std::move(*page), listing.page, listing.query.limit, pattern_));
    }

    [[nodiscard]] http::Response show(const Call& call, const std::string& id) const {
        return found(call, id, [this](const auto& letter) { return deadletter::detail_json(letter, pattern_); });
    }
    [[nodiscard]] http::Response raw(const Call& call, const std::string& id) const {
        return found(call, id, deadletter::raw_json);
    }

    /// The lines outlive their letter.
    [[nodiscard]] http::Response audit(const Call& call, const std::string& id) const {
        const auto lines = letters_->audit(id, kMaxAuditLines);
        if (!lines) return failure(lines.error(), call);
        if (!lines->empty()) return json(deadletter::audit_json(*lines));
        return found(call, id, [](const store::LetterDetail&) { return deadletter::audit_json({}); });
    }

    [[nodiscard]] http::Response mark_dead(const Call& call, const std::string& id) const {
        const auto before = letters_->mark_dead(id, call.caller.name);
        if (!before) return failure(before.error(), call, true);
        if (!*before) return dlq_not_found(id, call.request_id);
        const store::Letter& letter = **before;
        if (letter.status == store::LetterStatus::resolved || letter.status == store::LetterStatus::dead) {
            return dlq_conflict(fmt::format("message cannot be marked as dead: status={}, retry_count={}/{}",
                                            store::to_string(letter.status), letter.retry_count, letter.max_retries),
                                call.request_id);
        }
        return marked(call, id);
    }

    [[nodiscard]] http::Response revive(const Call& call, const std::string& id) const {
        const auto before = letters_->revive(id, call.caller.name);
        if (!before) return failure(before.error(), call, true);
        if (!*before) return dlq_not_found(id, call.request_id);
        if (const std::string why = deadletter::not_revivable_reason(**before); !why.empty()) {
            return dlq_conflict("message cannot be revived: " + why, call.request_id);
        }
        return changed(id, store::LetterStatus::pending, deadletter::kRevived);
    }

    [[nodiscard]] http::Response remove(const Call& call, const std::string& id) const {
        const auto removed = letters_->remove(id, call.caller.name);
        if (!removed) return failure(removed.error(), call, true);
        if (*removed == store::Removal::unknown) return dlq_not_found(id, call.request_id);
        if (*removed == store::Removal::under_way) {
            return dlq_conflict("message cannot be deleted: a retry of it is under way", call.request_id);
        }
        JsonObject object;
        object.boolean("success", true);
        object.text("message", fmt::format("message {} deleted", id));
        return json(object.done());
    }

    [[nodiscard]] http::Response purge(const Call& call) const {
        const DlqPurge asked = read_dlq_purge(call.request.query);
        if (!asked.problems.empty()) return invalid(asked.problems, call);
        std::int64_t purged = 0;
        bool more = true;
        int empty = 0;  // the first may only say that the end was reached, not that nothing was left before it
        while (more && purged < asked.limit) {
            const auto piece = static_cast<std::int32_t>(std::min<std::int64_t>(kPurgePiece, asked.limit - purged));
            const auto gone = letters_->purge(asked.status, asked.age, piece, call.caller.name);
            if (!gone) return failure(gone.error(), call, purged == 0);
            purged += *gone;
            empty = *gone == 0 ? empty + 1 : 0;
            more = empty < 2;
        }
        JsonObject object;
        object.number("purged", purged);
        object.boolean("more", more);
        object.text("message", fmt::format("{} {} messages deleted", purged, store::to_string(asked.status)));
        return json(object.done());
    }

private:
    [[nodiscard]] static http::Response invalid(const std::vector<Detail>& problems, const Call& call) {
        const Detail& first = problems.front();
        return dlq_validation_error(fmt::format("{} {}", first.field, first.message), call.request_id, problems);
    }

    [[nodiscard]] http::Response failure(const Error& error, const Call& call, bool changes = false) const {
        return dlq_store_failure(error, changes, call.request_id, *log_);
    }

    template <typename Body>
    [[nodiscard]] http::Response found(const Call& call, const std::string& id, const Body& body) const {
        const auto letter = letters_->find(id);
        if (!letter) return failure(letter.error(), call);
        return *letter ? json(body(**letter)) : dlq_not_found(id, call.request_id);
    }

    /// It was open. One that is being retried at this moment is left as it is, which only a second look shows.
    [[nodiscard]] http::Response marked(const Call& call, const std::string& id) const {
        const auto after = letters_->find(id);
        if (!after) return failure(after.error(), call, true);
        if (!*after) return dlq_not_found(id, call.request_id);
        if ((*after)->letter.status != store::LetterStatus::dead) {
            return dlq_conflict("message cannot be marked as dead: a retry of it is under way", call.request_id);
        }
        return changed(id, store::LetterStatus::dead, "message marked as dead");
    }

    static http::Response changed(const std::string& id, store::LetterStatus status, std::string_view message) {
        JsonObject object;
        object.text("id", id);
        object.text("status", store::to_string(status));
        object.text("message", message);
        return json(object.done());
    }

    store::DeadLetters* letters_;
    Log* log_;
    std::string pattern_;
};

http::Response bad_id(const Call& call) {
    return dlq_validation_error(
        fmt::format("invalid message id: {}", shorten(one_line(call.path_values.front()), kMaxShownIdBytes)),
        call.request_id);
}

using ById = std::function<void(const Call&, const std::string& id, const http::Reply&)>;

/// A route of one letter. What is no uuid gets no further, nor does a caller who may not see the letter. Looking first
/// and acting then is safe: a letter keeps its topics.
Route by_id(std::string method, std::string_view rest, Role needs, const Desk& desk, ById handler) {
    return {std::move(method),
            fmt::format("{}/messages/{{id}}{}", kDlqPath, rest),
            needs,
            {},
            [desk, handler = std::move(handler)](const Call& call, const http::Reply& reply) {
                const std::string id = canonical_uuid(call.path_values.front());
                if (id.empty()) return reply(bad_id(call));
                if (auto refusal = desk.out_of_scope(call, id)) return reply(std::move(*refusal));
                handler(call, id, reply);
            },
            Limited::by_handler};
}

Route by_id(std::string method, std::string_view rest, Role needs, const Desk& desk,
            http::Response (Desk::*answer)(const Call&, const std::string&) const) {
    return by_id(std::move(method), rest, needs, desk,
                 [desk, answer](const Call& call, const std::string& id, const http::Reply& reply) {
                     reply((desk.*answer)(call, id));
                 });
}

void retry_all(DlqRetries& retries, const Call& call, const http::Reply& reply) {
    const std::string& topic = call.path_values.front();
    if (!call.request.query.empty()) {
        return reply(dlq_validation_error(
            "retry-all takes no parameters: it sends back all of a topic; nothing was retried", call.request_id));
    }
    if (topic.size() <= kMaxTopicBytes) return retries.retry_all(topic, call, reply);
    reply(dlq_validation_error(fmt::format("no topic and no lane has a name of more than {} bytes", kMaxTopicBytes),
                               call.request_id));
}

}  // namespace

std::vector<Route> dlq_routes(DlqRetries& retries, store::DeadLetters& letters, Log& log, std::string pattern) {
    const Desk desk(letters, log, std::move(pattern));
    std::vector<Route> routes;
    routes.push_back({"GET",
                      std::string(kDlqPath),
                      Role::viewer,
                      [desk](const Call& call) { return desk.topics(call); },
                      {},
                      Limited::by_handler});
    routes.push_back({"GET",
                      fmt::format("{}/{{topic}}", kDlqPath),
                      Role::viewer,
                      {},
                      [&retries, desk](const Call& call, const http::Reply& reply) {
                          retries.list(call, reply, [desk](const Call& asked) { return desk.list(asked); });
                      },
                      Limited::by_topic});
    routes.push_back(  // of all topics
        {"DELETE", std::string(kDlqPath), Role::admin, [desk](const Call& call) { return desk.purge(call); }});
    routes.push_back(by_id("GET", "", Role::viewer, desk, &Desk::show));
    routes.push_back(by_id("GET", "/raw", Role::viewer, desk, &Desk::raw));
    routes.push_back(by_id("GET", "/audit", Role::viewer, desk, &Desk::audit));
    routes.push_back(by_id("POST", "/dead", Role::operator_, desk, &Desk::mark_dead));
    routes.push_back(by_id("POST", "/revive", Role::operator_, desk, &Desk::revive));
    routes.push_back(by_id("DELETE", "", Role::admin, desk, &Desk::remove));
    routes.push_back(by_id("POST", "/retry", Role::operator_, desk,
                           [&retries](const Call& call, const std::string& id, const http::Reply& reply) {
                               retries.retry(id, call, reply);
                           }));
    routes.push_back({"POST",
                      fmt::format("{}/{{topic}}/retry-all", kDlqPath),
                      Role::operator_,
                      {},
                      [&retries](const Call& call, const http::Reply& reply) { retry_all(retries, call, reply); },
                      Limited::by_topic});
    return routes;
}

}  // namespace deliverd::api
