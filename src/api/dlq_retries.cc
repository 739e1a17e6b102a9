#include "api/dlq_retries.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <utility>

#include "api/dlq_answers.h"
#include "base/json_object.h"
#include "base/text.h"
#include "deadletter/letter_json.h"
#include "deadletter/retry_rules.h"

namespace deliverd::api {

namespace {

using deadletter::RetryAnswer;
using deadletter::RetryReport;

constexpr std::size_t kMaxShownReportBytes = 512;

std::string shown_report(std::string_view text, std::size_t parts = 1) {
    return shorten(one_line(text), parts * kMaxShownReportBytes);
}

/// As other requests are answered then, and says that nothing was published.
http::Response answer_unavailable(const RetryReport& report, std::string_view request_id, Log& log) {
    if (!report.store_error) return dlq_refusal(503, shown_report(report.message), request_id);
    switch (report.store_error->error_class) {
        case ErrorClass::retryable:
            return dlq_refusal(503, "nothing was published: the database is out of reach; ask again", request_id);
        case ErrorClass::ambiguous:
            return dlq_refusal(503,
                               "nothing was published: the database went away while the retry was recorded. The "
                               "message may be RETRYING until the retry's lease has run out; ask again then",
                               request_id);
        case ErrorClass::permanent:
            break;
    }
    return dlq_store_failure(*report.store_error, true, request_id, log);
}

http::Response answer_to(const RetryReport& report, const std::string& id, std::string_view request_id, Log& log) {
    switch (report.answer) {
        case RetryAnswer::resolved:
            return json_response(deadletter::state_json(id, store::LetterStatus::resolved, "message retry initiated"));
        case RetryAnswer::not_found:
            return dlq_not_found(id, request_id);
        case RetryAnswer::conflict:
            return dlq_refusal(409, shown_report(report.message), request_id);
        case RetryAnswer::not_published:  // the message says whether anything may have been published
        case RetryAnswer::in_doubt:
            return dlq_refusal(500, shown_report(report.message), request_id);
        case RetryAnswer::unavailable:
            return answer_unavailable(report, request_id, log);
    }
    return dlq_refusal(500, "the retry ended in an unknown way", request_id);
}

http::Response answer_to(const deadletter::RedriveReport& report, const std::string& topic,
                         std::string_view request_id) {
    const store::Redrive& redrive = report.redrive;
    if (report.under_way_elsewhere) {
        return dlq_refusal(409,
                           fmt::format("a retry of all messages in topic {} is under way already", shown_report(topic)),
                           request_id);
    }
    if (!report.problem.empty()) {
        return dlq_refusal(500,
                           fmt::format("{} messages retried in topic {}, not all: {}", redrive.published,
                                       shown_report(topic), shown_report(how_it_ended(report), 2)),
                           request_id);
    }
    std::string message = fmt::format("{} messages retried in topic {}", redrive.published, topic);
    if (report.not_tried > 0) {
        message += fmt::format("; {} were not tried: {}", report.not_tried, shown_report(report.not_tried_reason));
    }
    JsonObject object;
    object.number("retried", redrive.published);
    object.text("message", message);
    object.number("failed", redrive.failed);
    object.number("in_doubt", redrive.in_doubt);
    object.number("taken_over", redrive.taken_over);
    object.number("not_tried", report.not_tried);
    return json_response(object.done());
}

}  // namespace

deadletter::SendRule dlq_send_rule(const Scope& scope) {
    if (!scope.is_limited()) return {};
    return [scope](const store::Letter& letter) -> std::string {
        return scope.allows(letter.provenance.original_topic) ? "" : "the token may not use its original topic";
    };
}

/// Dropped unanswered (at a stop), it answers 503.
struct DlqRetries::WaitingRequest {
    std::string request_id;
    std::string actor;
    http::Reply reply;

    WaitingRequest(std::string id, std::string who, http::Reply to)
        : request_id(std::move(id)), actor(std::move(who)), reply(std::move(to)) {}
    ~WaitingRequest() { reply(dlq_refusal(503, "the service is stopping; nothing was done", request_id)); }
    WaitingRequest(const WaitingRequest&) = delete;
    WaitingRequest& operator=(const WaitingRequest&) = delete;
};

DlqRetries::DlqRetries(const DlqRetriesOptions& options, DlqActions actions, Log& log)
    : actions_(std::move(actions)),
      log_(log),
      retries_(options.retry_threads, options.max_waiting_retries),
      redrives_(options.redrive_threads, options.max_waiting_redrives),
      listings_(options.listing_threads, options.max_waiting_listings) {}

DlqRetries::~DlqRetries() {
    stop();
}

void DlqRetries::stop() {
    stopping_ = true;
    retries_.stop();
    redrives_.stop();
    listings_.stop();
}

void DlqRetries::submit(http::HandlerPool& pool, const Call& call, const http::Reply& reply, std::string_view what,
                        std::function<http::Response(const WaitingRequest&)> work) {
    auto asked = std::make_shared<WaitingRequest>(call.request_id, call.caller.name, reply);
    http::HandlerPool::Task task = [this, asked, work = std::move(work)] {
        if (stopping_) return;
        std::string fault = "not a std::exception";
        try {
            return asked->reply(work(*asked));
        } catch (const std::exception& error) {
            fault = error.what();
        } catch (...) {  // `fault` says so
        }
        log_.error("dead letters: a request failed", {{"request_id", asked->request_id}, {"error", fault}});
        asked->reply(dlq_refusal(500, "it failed; the log has the cause under this request id", asked->request_id));
    };
    if (stopping_ || pool.try_submit(task)) return;
    asked->reply(dlq_refusal(503, fmt::format("too many {} wait already; nothing was done, ask again", what),
                             asked->request_id));
}

void DlqRetries::retry(const std::string& id, const Call& call, const http::Reply& reply) {
    submit(retries_, call, reply, "retries",
           [this, id, rule = dlq_send_rule(call.caller.scope)](const WaitingRequest& asked) {
               return answer_to(actions_.retry(id, asked.actor, rule), id, asked.request_id, log_);
           });
}

void DlqRetries::retry_all(const std::string& topic, const Call& call, const http::Reply& reply) {
    submit(redrives_, call, reply, "retries",
           [this, topic, rule = dlq_send_rule(call.caller.scope)](const WaitingRequest& asked) {
               const auto report = actions_.retry_all(topic, asked.actor, rule);
               if (report) return answer_to(*report, topic, asked.request_id);
               if (report.error().code == deadletter::kStopping) {
                   return dlq_refusal(503, shown_report(report.error().message), asked.request_id);
               }
               return dlq_store_failure(report.error(), true, asked.request_id, log_);
           });
}

void DlqRetries::list(const Call& call, const http::Reply& reply, std::function<http::Response(const Call&)> listing) {
    submit(listings_, call, reply, "listings",
           [call, listing = std::move(listing)](const WaitingRequest&) { return listing(call); });
}

}  // namespace deliverd::api
