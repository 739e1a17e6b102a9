#include <fmt/format.h>
#include <unistd.h>

#include "app/command.h"
#include "app/command_input.h"
#include "app/spool_sender.h"
#include "base/json_object.h"
#include "base/text.h"
#include "deliverd/spool.h"
#include "sink/http/http_poster.h"

namespace deliverd::app {

namespace {

constexpr const char* kTokenVariable = "DELIVERD_SPOOL_TOKEN";
constexpr std::int64_t kMaxToldRejects = 10;
constexpr std::size_t kMaxShownSpoolError = 60;

/// The token of --token-env, which must be there then; else that of kTokenVariable, if any.
Result<std::string> token_of(const Context& context, const SpoolArguments& arguments) {
    const std::string name = arguments.token_env.value_or(kTokenVariable);
    auto token = context.environment(name);
    if (token && !token->empty()) return std::move(*token);
    if (!arguments.token_env) return std::string();
    return permanent(
        "bad_argument",
        fmt::format("--token-env {}: there is no such environment variable, or it is empty", one_line(name)));
}

/// How far a retry is, for a person who watches.
class SpoolProgress {
public:
    explicit SpoolProgress(const Context& context) : context_(context), on_(isatty(STDERR_FILENO) == 1) {}
    ~SpoolProgress() {
        if (shown_) context_.err << "\r\x1b[K" << std::flush;
    }
    SpoolProgress(const SpoolProgress&) = delete;
    SpoolProgress& operator=(const SpoolProgress&) = delete;
    void show(const SpoolSummary& summary, std::int64_t of) {
        if (!on_) return;
        shown_ = true;
        context_.err << fmt::format("\r{} of {}: {} resolved, {} failed", summary.total, of, summary.resolved,
                                    summary.failed + summary.exhausted)
                     << std::flush;
    }

private:
    const Context& context_;
    const bool on_;
    bool shown_ = false;
};

/// The number where it is no time anybody can show.
std::string shown_time(std::int64_t ms) {
    const auto time = foreign_time(ms);
    return time ? rfc3339_offset(*time) : std::to_string(ms);
}

class SpoolCommand {
public:
    SpoolCommand(const Context& context, const Arguments& arguments, Spool& spool)
        : context_(context), arguments_(arguments.spool), json_(arguments.json), spool_(spool) {}

    int run(Action action) {
        switch (action) {
            case Action::spool_add:
                return add();
            case Action::spool_list:
                return list();
            case Action::spool_show:
                return show();
            case Action::spool_retry:
                return retry();
            case Action::spool_cleanup:
                return cleanup();
            default:
                return resolve();
        }
    }

private:
    int add() {
        auto payload = payload_text(context_, "--data", arguments_.data);
        if (!payload) return complain(context_, payload.error());
        NewSpoolEntry entry;
        entry.endpoint = arguments_.endpoint;
        entry.payload = std::move(*payload);
        entry.error = {arguments_.error, arguments_.code};
        entry.attempts_made = arguments_.attempts_made;
        entry.max_attempts = arguments_.max_attempts;
        const auto added = spool_.add(entry);
        if (!added) return complain(context_, added.error());
        context_.out << (json_ ? added->json : added->job_id) << "\n";
        return kDone;
    }

    int list() {
        std::int64_t shown = 0;
        std::int64_t told = 0;
        const auto looked = spool_.each(
            [&](const SpoolEntry& entry) {
                if (is_wanted(entry)) print(entry, shown++ == 0);
                return !arguments_.limit || shown < *arguments_.limit;
            },
            [&](const SpoolReject& reject) {
                if (told++ < kMaxToldRejects) tell(reject);
            });
        if (!looked) return complain(context_, looked.error());
        if (json_) {
            context_.out << (shown == 0 ? "[]\n" : "]\n");
        } else if (shown == 0) {
            context_.out << "no entries\n";
        }
        if (told > kMaxToldRejects) {
            complain(context_, kDone, fmt::format("{} lines of {} are no entries", told, arguments_.file));
        }
        return kDone;
    }

    [[nodiscard]] bool is_wanted(const SpoolEntry& entry) const {
        if (arguments_.state && *arguments_.state != to_string(entry.state)) return false;
        if (!arguments_.due) return true;
        const auto now = std::chrono::floor<std::chrono::milliseconds>(SystemClock().wall_now());
        return entry.state == SpoolState::pending && entry.attempts_made < entry.max_attempts &&
               entry.next_retry_ms <= now.time_since_epoch().count();
    }

    void tell(const SpoolReject& reject) {
        complain(
            context_, kDone,
            fmt::format("{}:{}: {}; {}", arguments_.file, reject.line, reject.reason,
                        reject.torn ? "the next `spool add` ends it" : "the next retry or cleanup moves it aside"));
    }

    void print(const SpoolEntry& entry, bool first) {
        if (json_) {
            context_.out << (first ? "[" : ",\n ") << entry.json;
            return;
        }
        if (first) print_row("jobId", "state", "attempts", "nextRetry", "error", "endpoint");
        const std::string error =
            entry.error.code ? fmt::format("{} {}", *entry.error.code, entry.error.message) : entry.error.message;
        print_row(one_line(entry.job_id), to_string(entry.state),
                  fmt::format("{}/{}", entry.attempts_made, entry.max_attempts),
                  entry.state == SpoolState::pending ? shown_time(entry.next_retry_ms) : "–",
                  shorten(one_line(error), kMaxShownSpoolError), one_line(entry.endpoint));
    }

    void print_row(std::string_view id, std::string_view state, std::string_view attempts, std::string_view next,
                   std::string_view error, std::string_view endpoint) {
        context_.out << fmt::format("{:<28}  {:<9}  {:>8}  {:<29}  {:<30}  {}\n", id, state, attempts, next, error,
                                    endpoint);
    }

    int unknown(const std::string& id) {
        return complain(context_, kFailed, fmt::format("no entry {} in {}", one_line(id), arguments_.file));
    }

    int show() {
        const auto entry = spool_.find(arguments_.ids.front());
        if (!entry) return complain(context_, entry.error());
        if (!*entry) return unknown(arguments_.ids.front());
        context_.out << (*entry)->json << "\n";
        return kDone;
    }

    int retry() {
        auto token = token_of(context_, arguments_);
        if (!token) return complain(context_, token.error());
        if (!token->empty() && arguments_.token_hosts.empty()) {
            complain(context_, kDone, "no token is sent: name the hosts that may have it with --token-host HOST");
        }
        auto poster = sink::make_http_poster({.token = std::move(*token),
                                              .token_hosts = arguments_.token_hosts,
                                              .allow_private = arguments_.allow_private,
                                              .timeout = from_seconds(arguments_.timeout_seconds)});
        if (!poster) return complain(context_, poster.error());
        const SpoolSender sender = http_sender(std::move(*poster));
        SpoolSummary sum;
        {
            SpoolProgress progress(context_);
            SpoolRetryOptions options;
            options.progress = [&](const SpoolSummary& summary, std::int64_t of) { progress.show(summary, of); };
            bool more = true;
            while (more) {
                const auto round = spool_.retry(sender, options);
                if (!round) return complain(context_, round.error());
                sum.total += round->total;
                sum.resolved += round->resolved;
                sum.failed += round->failed;
                sum.exhausted += round->exhausted;
                sum.recovered += round->recovered;
                sum.rejected += round->rejected;
                more = round->more_due;
            }
        }
        report(sum);
        return sum.failed + sum.exhausted == 0 ? kDone : kFailed;
    }

    void report(const SpoolSummary& sum) {
        tell_rejected(sum.rejected);
        if (sum.recovered > 0) {
            complain(context_, kDone, fmt::format("{} attempts of a run that died were recorded", sum.recovered));
        }
        if (!json_) {
            context_.out << fmt::format("{} tried: {} resolved, {} failed, {} exhausted\n", sum.total, sum.resolved,
                                        sum.failed, sum.exhausted);
            return;
        }
        JsonObject object;
        object.number("total", sum.total);
        object.number("resolved", sum.resolved);
        object.number("failed", sum.failed);
        object.number("exhausted", sum.exhausted);
        context_.out << object.done() << "\n";
    }

    void tell_rejected(std::int64_t count) {
        if (count == 0) return;
        complain(context_, kDone,
                 fmt::format("{} unreadable {} moved to {}.rejected", count, count == 1 ? "line was" : "lines were",
                             arguments_.file));
    }

    int cleanup() {
        const auto done = spool_.cleanup();
        if (!done) return complain(context_, done.error());
        tell_rejected(done->rejected);
        if (json_) {
            JsonObject object;
            object.number("kept", done->kept);
            object.number("removed", done->removed);
            object.number("rejected", done->rejected);
            context_.out << object.done() << "\n";
        } else {
            context_.out << fmt::format("{} removed, {} kept\n", done->removed, done->kept);
        }
        return kDone;
    }

    int resolve() {
        for (const std::string& id : arguments_.ids) {
            const auto there = spool_.find(id);
            if (!there) return complain(context_, there.error());
            if (!*there) return unknown(id);
        }
        const auto resolved = spool_.resolve(arguments_.ids);
        if (!resolved) return complain(context_, resolved.error());
        tell_rejected(resolved->rejected);
        const std::size_t count = resolved->job_ids.size();
        if (json_) {
            context_.out << fmt::format("{{\"resolved\":{}}}\n", count);
        } else {
            context_.out << fmt::format("{} resolved\n", count);
        }
        return kDone;
    }

    const Context& context_;
    const SpoolArguments& arguments_;
    const bool json_;
    Spool& spool_;
};

}  // namespace

int run_spool(const Context& context, const Arguments& arguments) {
    auto spool = open_spool({.path = arguments.spool.file, .name = arguments.spool.name});
    if (!spool) return complain(context, spool.error());
    return SpoolCommand(context, arguments, **spool).run(arguments.action);
}

}  // namespace deliverd::app
