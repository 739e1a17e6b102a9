#include "api/dlq_retries.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <utility>

#include "base/json_object.h"
#include "base/text.h"
#include "deadletter/letter_json.h"
#include "deadletter/retry_rules.h"
#include "deliverd/error_codes.h"

namespace deliverd::api {

namespace {

using deadletter::RetryAnswer;
using deadletter::RetryReport;

constexpr std::size_t kMaxShownReportBytes = 512;
constexpr std::string_view kInternalError = "SYS_DLQ_INTERNAL_ERROR";

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
                           fmt::format("a retry of all messages in topic {} is already under way", shown_report(topic)),
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

http::Response dlq_refusal(int status, std::string_view message, std::string_view request_id,
                           const std::vector<Detail>& details) {
    // An outage has the code of a fault: existing clients know no other code for it.
    const std::string_view code = status == 400   ? "SYS_DLQ_VALIDATION_ERROR"
                                  : status == 404 ? "SYS_DLQ_NOT_FOUND"
                                  : status == 409 ? "SYS_DLQ_CONFLICT"
                                                  : kInternalError;
    if (status == 503) return try_later(code, message, request_id);
    return error_response(status, code, message, request_id, details);
}

http::Response dlq_not_found(std::string_view id, std::string_view request_id) {
    return dlq_refusal(404, fmt::format("dlq message not found: {}", id), request_id);
}

http::Response dlq_store_failure(const Error& error, bool changes, std::string_view request_id, Log& log) {
    switch (error.error_class) {
        case ErrorClass::retryable: {
            const bool slow = error.code == codes::kDbTimeout;
            if (slow) {
                log.warn("dead letters: the database took too long",
                         {{"request_id", request_id}, {"error", error.message}});
            }
            const std::string_view what = slow ? "the database took too long" : "the database is out of reach";
            const std::string_view next = changes ? "; nothing was changed, ask again"
                                          : slow  ? ": narrow the request, for example to a topic or a time range"
                                                  : "; ask again";
            return dlq_refusal(503, fmt::format("{}{}", what, next), request_id);
        }
        case ErrorClass::ambiguous:
            return dlq_refusal(503,
                               "the connection to the database was lost during the commit; the change may have been "
                               "made: check before you ask again",
                               request_id);
        case ErrorClass::permanent:
            break;
    }
    return database_refused(kInternalError, "dead letters: the database refused a request", error, request_id, log);
}

deadletter::SendRule dlq_send_rule(const Scope& scope) {
    if (!scope.is_limited()) return {};
    return [scope](const store::Letter& letter) -> std::string {
        return scope.allows(letter.provenance.original_topic) ? "" : "the token may not use its original topic";
    };
}

DlqRetries::DlqRetries(const DlqRetriesOptions& options, DlqActions actions, Log& log)
    : actions_(std::move(actions)),
      log_(log),
      retries_(options.retry_threads, options.max_waiting_retries),
      redrives_(options.redrive_threads, options.max_waiting_redrives),
      listings_(options.listing_threads, options.max_waiting_listings) {}

void DlqRetries::stop() {
    // Before the first pool stops: a retry that still waits in another one must not begin.
    stopping_ = true;
    retries_.stop();
    redrives_.stop();
    listings_.stop();
}

void DlqRetries::submit(http::HandlerPool& pool, const Call& call, const http::Reply& reply, std::string_view what,
                        std::function<http::Response(const Call&)> work) {
    // The pool drops what waits at a stop. The client must be told that nothing was done: the bare 500 of a dropped
    // reply would leave open whether something was published. After an answer, this one has no effect.
    const auto answer_if_dropped = [reply, id = call.request_id](const void*) {
        reply(dlq_refusal(503, "the service is stopping; nothing was done", id));
    };
    const std::shared_ptr<const void> dropped(&actions_, answer_if_dropped);
    http::HandlerPool::Task task = [this, call, reply, dropped, work = std::move(work)] {
        if (stopping_) return;
        std::string fault = "not a std::exception";
        try {
            return reply(work(call));
        } catch (const std::exception& error) {
            fault = error.what();
        } catch (...) {  // `fault` says so
        }
        log_.error("dead letters: a request failed", {{"request_id", call.request_id}, {"error", fault}});
        reply(dlq_refusal(500, "it failed; the log has the cause under this request id", call.request_id));
    };
    // A pool that has stopped is not full: then `dropped` answers.
    if (stopping_ || pool.try_submit(task)) return;
    reply(
        dlq_refusal(503, fmt::format("too many {} wait already; nothing was done, ask again", what), call.request_id));
}

void DlqRetries::retry(const std::string& id, const Call& call, const http::Reply& reply) {
    submit(retries_, call, reply, "retries", [this, id](const Call& asked) {
        const auto report = actions_.retry(id, asked.caller.name, dlq_send_rule(asked.caller.scope));
        return answer_to(report, id, asked.request_id, log_);
    });
}

void DlqRetries::retry_all(const std::string& topic, const Call& call, const http::Reply& reply) {
    submit(redrives_, call, reply, "retries", [this, topic](const Call& asked) {
        const auto report = actions_.retry_all(topic, asked.caller.name, dlq_send_rule(asked.caller.scope));
        if (report) return answer_to(*report, topic, asked.request_id);
        if (report.error().code == deadletter::kStopping) {
            return dlq_refusal(503, shown_report(report.error().message), asked.request_id);
        }
        return dlq_store_failure(report.error(), true, asked.request_id, log_);
    });
}

void DlqRetries::list(const Call& call, const http::Reply& reply, std::function<http::Response(const Call&)> listing) {
    submit(listings_, call, reply, "listings", std::move(listing));
}

}  // namespace deliverd::api
