#include <fmt/format.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "app/command.h"
#include "app/command_input.h"
#include "app/parts.h"
#include "base/text.h"

namespace deliverd::app {

namespace {

boost::json::value or_null(const std::optional<std::string>& text) {
    return text ? boost::json::value(*text) : boost::json::value(nullptr);
}

boost::json::object to_json(const MemoryRow& row) {
    return {{"outbox_id", row.outbox_id},
            {"item_id", row.item_id ? boost::json::value(*row.item_id) : boost::json::value(nullptr)},
            {"target_space", row.target_space},
            {"payload_md", row.payload_md},
            {"payload_sha", row.payload_sha},
            {"status", row.status},
            {"retry_count", row.retry_count},
            {"next_attempt_at", row.next_attempt_at},
            {"locked_at", or_null(row.locked_at)},
            {"locked_by", or_null(row.locked_by)},
            {"last_error", or_null(row.last_error)},
            {"created_at", row.created_at},
            {"updated_at", row.updated_at}};
}

Failure unreadable_payload(const std::string& payload) {
    const std::string why = errno == 0 ? "it cannot be read" : std::strerror(errno);
    return permanent("bad_argument", fmt::format("--payload {0}: {1}; after @ stands a file, write @{0} for a text "
                                                 "that begins with @",
                                                 payload, why));
}

Result<std::string> payload_text(const Context& context, const std::string& payload, std::int64_t most) {
    if (!payload.starts_with('@')) return payload;
    if (payload.starts_with("@@")) return payload.substr(1);
    const std::string name = payload.substr(1);
    errno = 0;
    std::ifstream file;
    if (name != "-") {
        file.open(name, std::ios::binary);
        if (!file) return unreadable_payload(payload);
    }
    std::istream& from = name == "-" ? context.in : file;
    errno = 0;
    std::string text = read_bounded(from, most);
    if (from.bad()) return unreadable_payload(payload);
    if (static_cast<std::int64_t>(text.size()) > most) {
        return permanent("bad_argument", fmt::format("--payload {}: longer than the {} bytes a payload may have "
                                                     "(lanes.NAME.max_payload_bytes)",
                                                     payload, most));
    }
    return text;
}

/// The digest as the table has it, in lower case; none when it is not one.
std::optional<std::string> sha256_digest(std::string text) {
    constexpr std::size_t kHexDigits = 64;
    for (char& c : text) {
        if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return std::nullopt;
    }
    return text.size() == kHexDigits ? std::optional(std::move(text)) : std::nullopt;
}

/// One lease command on an open database.
class LeaseCommand {
public:
    LeaseCommand(const Context& context, const Arguments& arguments, const store::Database& database, Lease& lease,
                 std::int64_t max_payload_bytes)
        : context_(context),
          arguments_(arguments.lease),
          json_(arguments.json),
          database_(database),
          lease_(lease),
          max_payload_bytes_(max_payload_bytes) {}

    int run(Action action) {
        const LeaseArguments& a = arguments_;
        switch (action) {
            case Action::lease_enqueue:
                return enqueue();
            case Action::lease_claim:
                return claim();
            case Action::lease_ack:
                return settled(lease_.ack_sent(a.id, a.worker, a.memory_id));
            case Action::lease_fail:
                return fail();
            case Action::lease_dead:
                return settled(lease_.mark_dead_by_worker(a.id, a.worker, a.error));
            case Action::lease_renew:
                return settled(lease_.renew_lease(a.id, a.worker));
            case Action::lease_dedup:
                return dedup();
            default:
                return show();
        }
    }

private:
    int settled(const Result<bool>& answer) {
        if (!answer) return complain(context_, answer.error());
        context_.out << (*answer ? "true\n" : "false\n");
        return *answer ? kDone : kFailed;
    }

    int enqueue() {
        const auto text = payload_text(context_, arguments_.payload, max_payload_bytes_);
        if (!text) return complain(context_, text.error());
        const auto id = lease_.enqueue_memory(arguments_.space, *text, arguments_.item_id, max_payload_bytes_);
        if (!id) return complain(context_, id.error());
        context_.out << *id << "\n";
        return kDone;
    }

    int claim() {
        const auto rows = lease_.claim_outbox(arguments_.worker, arguments_.limit, arguments_.lease_seconds);
        if (!rows) return complain(context_, rows.error());
        boost::json::array array;
        for (const MemoryRow& row : *rows) array.push_back(to_json(row));
        if (json_) {
            context_.out << boost::json::serialize(array) << "\n";
        } else {
            for (const boost::json::value& row : array) context_.out << boost::json::serialize(row) << "\n";
        }
        return kDone;
    }

    int fail() {
        if (!parse_rfc3339(arguments_.next_attempt_at)) {
            return complain(context_, kWrongUsage,
                            fmt::format("--next-attempt-at \"{}\" is not an RFC 3339 time; write it as "
                                        "2026-02-20T10:30:00Z",
                                        arguments_.next_attempt_at));
        }
        return settled(
            lease_.fail_retry(arguments_.id, arguments_.worker, arguments_.error, arguments_.next_attempt_at));
    }

    int dedup() {
        const auto sha = sha256_digest(arguments_.sha);
        if (!sha) {
            return complain(
                context_, kWrongUsage,
                fmt::format("--sha \"{}\" is not a SHA-256 digest: it has 64 hexadecimal digits", arguments_.sha));
        }
        const auto hit = lease_.check_dedup(arguments_.space, *sha);
        if (!hit) return complain(context_, hit.error());
        if (!*hit) {
            context_.out << "null\n";
            return kDone;
        }
        const boost::json::object found{{"outbox_id", (*hit)->outbox_id}, {"memory_id", or_null((*hit)->memory_id)}};
        context_.out << boost::json::serialize(found) << "\n";
        return kDone;
    }

    int show() {
        const auto row = lease_.show(arguments_.id);
        if (!row) return complain(context_, row.error());
        if (!*row) {
            return complain(context_, kFailed,
                            fmt::format("no row {} in outbox_memory of {}", arguments_.id, database_.describe()));
        }
        context_.out << boost::json::serialize(to_json(**row)) << "\n";
        return kDone;
    }

    const Context& context_;
    const LeaseArguments& arguments_;
    const bool json_;
    const store::Database& database_;
    Lease& lease_;
    const std::int64_t max_payload_bytes_;
};

}  // namespace

int run_lease(const Context& context, const Config& config, const Arguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    if (arguments.action != Action::lease_enqueue) {
        if (const auto there = require_existing(config.database); !there) return complain(context, there.error());
    }
    auto database = open_ready_database(config.database, *log);
    if (!database) return complain(context, database.error());
    auto lease = (*database)->lease(cli_actor());
    if (!lease) return complain(context, lease.error());
    const std::int64_t most = config.database.kind == DatabaseTarget::Kind::sqlite
                                  ? config.database.sqlite.max_payload_bytes
                                  : config.database.postgres.max_payload_bytes;
    return LeaseCommand(context, arguments, **database, **lease, most).run(arguments.action);
}

}  // namespace deliverd::app
