#include "api/dlq_routes.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

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

/// The handlers over one store. Copied into each route.
class LetterHandlers {
public:
    LetterHandlers(deadletter::Manager& manager, store::DeadLetters& letters, Log& log, std::string pattern)
        : manager_(&manager), letters_(&letters), log_(&log), pattern_(std::move(pattern)) {}

    [[nodiscard]] http::Response topics(const Call& call) const {
        auto found = letters_->topics();
        if (!found) return failure(found.error(), call);
        std::erase_if(*found, [&](const auto& counts) { return !call.caller.scope.allows(counts.topic); });
        return json_response(deadletter::topics_json(*found));
    }

    /// The answer to a caller who may not see the letter: the same as if there were none. None when it may.
    [[nodiscard]] std::optional<http::Response> out_of_scope(const Call& call, const std::string& id) const {
        if (!call.caller.scope.is_limited()) return std::nullopt;
        // Read again by the handler: only a limited caller pays for the second read.
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
        return json_response(deadletter::page_json(std::move(*page), listing.page, listing.query.limit, pattern_));
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
        if (!lines->empty()) return json_response(deadletter::audit_json(*lines));
        return found(call, id, [](const store::LetterDetail&) { return deadletter::audit_json({}); });
    }

    [[nodiscard]] http::Response mark_dead(const Call& call, const std::string& id) const {
        return changed(call, id, manager_->mark_dead(id, call.caller.name), "marked as dead",
                       deadletter::state_json(id, store::LetterStatus::dead, deadletter::kMarkedDead));
    }
    [[nodiscard]] http::Response revive(const Call& call, const std::string& id) const {
        return changed(call, id, manager_->revive(id, call.caller.name), "revived",
                       deadletter::state_json(id, store::LetterStatus::pending, deadletter::kRevived));
    }
    [[nodiscard]] http::Response remove(const Call& call, const std::string& id) const {
        JsonObject object;
        object.boolean("success", true);
        object.text("message", fmt::format("message {} deleted", id));
        return changed(call, id, manager_->remove(id, call.caller.name), "deleted", object.done());
    }

    [[nodiscard]] http::Response purge(const Call& call) const {
        const DlqPurge asked = read_dlq_purge(call.request.query);
        if (!asked.problems.empty()) return invalid(asked.problems, call);
        const auto report = manager_->purge(asked.status, asked.age, asked.limit, call.caller.name);
        if (report.store_error) return failure(*report.store_error, call, report.purged == 0);
        JsonObject object;
        object.number("purged", report.purged);
        object.boolean("more", report.more);
        object.text("message", fmt::format("{} {} messages deleted", report.purged, store::to_string(asked.status)));
        return json_response(object.done());
    }

    /// All of a topic, or with dry_run=true what that would do.
    void retry_all(DlqRetries& retries, const Call& call, const http::Reply& reply) const {
        const std::string& topic = call.path_values.front();
        const DlqRetryAll asked = read_dlq_retry_all(call.request.query);
        if (!asked.problems.empty()) return reply(invalid(asked.problems, call));
        // It would become the key of a redrive in the database.
        if (topic.size() > kMaxTopicBytes) {
            return reply(dlq_refusal(
                400, fmt::format("names of topics and lanes have at most {} bytes", kMaxTopicBytes), call.request_id));
        }
        if (!asked.dry_run) return retries.retry_all(topic, call, reply);
        // Here and not on a thread of `retries`: it sends nothing, and is one cheap call of the store.
        const auto planned = manager_->plan(topic, dlq_send_rule(call.caller.scope));
        reply(planned ? json_response(deadletter::plan_json(*planned)) : failure(planned.error(), call));
    }

private:
    [[nodiscard]] static http::Response invalid(const std::vector<Detail>& problems, const Call& call) {
        const Detail& first = problems.front();
        return dlq_refusal(400, fmt::format("{} {}", first.field, first.message), call.request_id, problems);
    }

    [[nodiscard]] http::Response failure(const Error& error, const Call& call, bool changes = false) const {
        return dlq_store_failure(error, changes, call.request_id, *log_);
    }

    template <typename Body>
    [[nodiscard]] http::Response found(const Call& call, const std::string& id, const Body& body) const {
        const auto letter = letters_->find(id);
        if (!letter) return failure(letter.error(), call);
        return *letter ? json_response(body(**letter)) : dlq_not_found(id, call.request_id);
    }

    [[nodiscard]] http::Response changed(const Call& call, const std::string& id,
                                         const deadletter::ChangeReport& report, std::string_view what,
                                         std::string body) const {
        switch (report.answer) {
            case deadletter::ChangeAnswer::done:
                return json_response(std::move(body));
            case deadletter::ChangeAnswer::not_found:
                return dlq_not_found(id, call.request_id);
            case deadletter::ChangeAnswer::conflict:
                return dlq_refusal(409, fmt::format("message cannot be {}: {}", what, report.reason), call.request_id);
            case deadletter::ChangeAnswer::unavailable:
                break;
        }
        return failure(report.store_error.value_or(Error{}), call, true);
    }

    deadletter::Manager* manager_;
    store::DeadLetters* letters_;
    Log* log_;
    std::string pattern_;
};

using ById = std::function<void(const Call&, const std::string& id, const http::Reply&)>;

/// A route of one letter. Refuses what is no uuid, and callers who may not see the letter. Checking first and acting
/// afterwards is safe, because a letter keeps its topics.
Route by_id(std::string method, std::string_view rest, Role needs, const LetterHandlers& handlers, ById handler) {
    const auto checked = [handlers, handler = std::move(handler)](const Call& call, const http::Reply& reply) {
        const std::string& given = call.path_values.front();
        const std::string id = canonical_uuid(given);
        if (id.empty()) {
            const std::string shown = shorten(one_line(given), kMaxShownIdBytes);
            return reply(dlq_refusal(400, fmt::format("invalid message id: {}", shown), call.request_id));
        }
        if (auto refusal = handlers.out_of_scope(call, id)) return reply(std::move(*refusal));
        handler(call, id, reply);
    };
    return {std::move(method),  fmt::format("{}/messages/{{id}}{}", kDlqPath, rest), needs, {}, checked,
            Limited::by_handler};
}

}  // namespace

std::vector<Route> dlq_routes(DlqRetries& retries, deadletter::Manager& manager, store::DeadLetters& letters, Log& log,
                              std::string pattern) {
    const LetterHandlers handlers(manager, letters, log, std::move(pattern));
    const std::string all(kDlqPath);
    const auto topics = [handlers](const Call& call) { return handlers.topics(call); };
    const auto purge = [handlers](const Call& call) { return handlers.purge(call); };
    const auto list = [&retries, handlers](const Call& call, const http::Reply& reply) {
        retries.list(call, reply, [handlers](const Call& asked) { return handlers.list(asked); });
    };
    const auto retry_all = [&retries, handlers](const Call& call, const http::Reply& reply) {
        handlers.retry_all(retries, call, reply);
    };
    const auto retry = [&retries](const Call& call, const std::string& id, const http::Reply& reply) {
        retries.retry(id, call, reply);
    };
    const auto at_once = [&handlers](auto answer) -> ById {
        return [handlers, answer](const Call& call, const std::string& id, const http::Reply& reply) {
            reply((handlers.*answer)(call, id));
        };
    };
    return {
        {"GET", all, Role::viewer, topics, {}, Limited::by_handler},
        {"DELETE", all, Role::admin, purge},  // of all topics
        {"GET", all + "/{topic}", Role::viewer, {}, list, Limited::by_topic},
        {"POST", all + "/{topic}/retry-all", Role::operator_, {}, retry_all, Limited::by_topic},
        by_id("GET", "", Role::viewer, handlers, at_once(&LetterHandlers::show)),
        by_id("GET", "/raw", Role::viewer, handlers, at_once(&LetterHandlers::raw)),
        by_id("GET", "/audit", Role::viewer, handlers, at_once(&LetterHandlers::audit)),
        by_id("POST", "/retry", Role::operator_, handlers, retry),
        by_id("POST", "/dead", Role::operator_, handlers, at_once(&LetterHandlers::mark_dead)),
        by_id("POST", "/revive", Role::operator_, handlers, at_once(&LetterHandlers::revive)),
        by_id("DELETE", "", Role::admin, handlers, at_once(&LetterHandlers::remove)),
    };
}

}  // namespace deliverd::api
