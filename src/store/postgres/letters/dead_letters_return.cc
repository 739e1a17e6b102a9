#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr const char* kNotOwners = "its retry is not this one any more";
constexpr const char* kGone = "its row is gone, or no longer dead";
constexpr const char* kNoTable =
    "where the events of its lane are is not known yet: start the lane, and try again when it has given up an event";

using Texts = std::vector<std::optional<std::string>>;

/// Columns of what `owned` answers.
enum OwnedColumn {
    kOwnedId,
    kOwnedLane,
    kOwnedOutbox,
    kOwnedRow,
    kOwnedSchema,
    kOwnedTable,
    kOwnedIdColumn,
    kOwnedIdType,
    kOwnedPublished,
    kOwnedRetryCount,
    kOwnedNextAttempt,
    kOwnedDeadAt,
};

/// Where the events of a lane are; the names quoted, "" for a column that is not there.
struct EventsPlace {
    std::string table, id, id_type, published, retry_count, next_attempt_at, dead_at;
};

EventsPlace place_at(const PGresult* rows, int row) {
    const auto column = [&](int number) {
        const auto name = optional_text_at(rows, row, number);
        return name ? quoted(*name) : std::string();
    };
    return {column(kOwnedSchema) + "." + column(kOwnedTable),
            column(kOwnedIdColumn),
            std::string(text_at(rows, row, kOwnedIdType)),
            column(kOwnedPublished),
            column(kOwnedRetryCount),
            column(kOwnedNextAttempt),
            column(kOwnedDeadAt)};
}

std::string unpublished(const EventsPlace& place) {
    return place.published.empty() ? "" : " and o." + place.published + " is not true";
}

/// Ids. One failure stays counted: that is what keeps the later rows of its aggregate behind it until it was sent. With
/// none, a relay whose position is past it would find them first.
Statement return_rows(const EventsPlace& place) {
    return statement_by_text(
        "events_return", "update " + place.table + " o set " + place.dead_at + " = null, " + place.retry_count +
                             " = 1, " + place.next_attempt_at + " = null where o." + place.id +
                             " = any ($1::text[]::" + place.id_type + "[]) and o." + place.dead_at + " is not null" +
                             unpublished(place) + " returning o." + place.id + "::text");
}

/// Lane, ids. A line whose row is gone, or published meanwhile, is no business of anybody's.
Statement return_lines(const EventsPlace& place) {
    return statement_by_text("events_return_lines",
                             "update deliverd.event_failures f set dead_at = null, retry_count = 1, next_attempt_at ="
                             " null from " +
                                 place.table +
                                 " o where f.lane = $1::text and f.row_id = any ($2::text[]) and f.dead_at"
                                 " is not null and o." +
                                 place.id + " = f.row_id::" + place.id_type + unpublished(place) +
                                 " returning f.row_id");
}

/// The letters of one outbox and lane.
struct Group {
    std::optional<EventsPlace> place;
    Texts rows;
    std::vector<std::string> ids;  // of the letters, one a row
};

/// All inside a transaction of the caller's.
class Returning {
public:
    Returning(Connection& connection, const DeadLetterStatements& sql) : connection_(connection), sql_(sql) {}

    Result<PgResult> run(const Statement& statement, const Params& params) {
        return connection_.run(Step{&statement, &params}, Effect::read, connection_.statement_deadline());
    }

    /// Those of the ids whose retry is the owner's.
    Result<void> find(std::string_view owner, const Texts& ids) {
        Params params;
        params.text(owner).text_array(ids);
        auto result = run(sql_.owned, params);
        if (!result) return Failure(std::move(result.error()));
        const PGresult* rows = result->get();
        for (int row = 0; row < PQntuples(rows); ++row) {
            const std::string id(text_at(rows, row, kOwnedId));
            problems_[id] = kGone;
            if (null_at(rows, row, kOwnedLane) || null_at(rows, row, kOwnedRow)) continue;
            const std::string outbox = optional_text_at(rows, row, kOwnedOutbox).value_or("");
            Group& group = groups_[{outbox, std::string(text_at(rows, row, kOwnedLane))}];
            if (!null_at(rows, row, kOwnedTable)) group.place = place_at(rows, row);
            group.rows.emplace_back(std::string(text_at(rows, row, kOwnedRow)));
            group.ids.push_back(id);
        }
        return {};
    }

    Result<void> put_back(std::string_view actor) {
        for (const auto& [key, group] : groups_) {
            const auto& [outbox, lane] = key;
            if (outbox == "events" && !group.place) {
                for (const std::string& id : group.ids) problems_[id] = kNoTable;
                continue;
            }
            if (outbox != "events" && outbox != "memory") continue;
            auto result = outbox == "memory" ? memories(group) : events(lane, group);
            if (!result) return Failure(std::move(result.error()));
            std::set<std::string, std::less<>> back;
            Texts rows;
            for (int row = 0; row < PQntuples(result->get()); ++row) {
                back.emplace(text_at(result->get(), row, 0));
                rows.emplace_back(std::string(text_at(result->get(), row, 0)));
            }
            for (std::size_t i = 0; i < group.ids.size(); ++i) {
                if (back.contains(*group.rows[i])) problems_[group.ids[i]].clear();
            }
            Params note;
            note.text(outbox).text_array(rows).text(actor);
            if (auto noted = run(sql_.note_returned, note); !noted) return Failure(std::move(noted.error()));
        }
        return {};
    }

    Result<void> end(std::string_view owner, std::string_view actor) {
        Texts ids;
        Texts details;
        std::vector<std::int32_t> results;
        for (const auto& [id, problem] : problems_) {
            ids.emplace_back(id);
            details.emplace_back(problem);
            results.push_back(problem.empty() ? kReturned : static_cast<std::int32_t>(RetryResult::failed));
        }
        Params params;
        params.text(owner).text(actor).text_array(ids).int32_array(results).text_array(details);
        auto ended = run(sql_.end, params);
        if (!ended) return Failure(std::move(ended.error()));
        return {};
    }

    /// By id; those that are not the owner's are not there.
    [[nodiscard]] const std::map<std::string, std::string>& problems() const { return problems_; }

private:
    Result<PgResult> memories(const Group& group) {
        Params params;
        params.text_array(group.rows);
        return run(sql_.return_memory, params);
    }
    Result<PgResult> events(const std::string& lane, const Group& group) {
        Params params;
        const bool own = !group.place->dead_at.empty();
        if (!own) params.text(lane);
        params.text_array(group.rows);
        return run(own ? return_rows(*group.place) : return_lines(*group.place), params);
    }

    Connection& connection_;
    const DeadLetterStatements& sql_;
    std::map<std::string, std::string> problems_;
    std::map<std::pair<std::string, std::string>, Group> groups_;
};

}  // namespace

Result<std::vector<std::string>> PostgresDeadLetters::return_to_lane(std::string_view owner, std::string_view actor,
                                                                     std::span<const std::string> ids) {
    if (auto ok = check_retry_request({std::string(owner), std::string(actor)}); !ok) {
        return Failure(std::move(ok.error()));
    }
    std::vector<std::string> answers(ids.size(), kNotOwners);
    const auto sorted = sorted_ids(ids);
    if (sorted.empty()) return answers;
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const Deadline deadline = (*connection)->statement_deadline();
    // A failure leaves the transaction open; the pool throws such a connection away, which rolls it back.
    if (auto begun = (*connection)->script("begin", Effect::read, deadline); !begun) {
        return Failure(std::move(begun.error()));
    }
    Returning returning(**connection, sql_);
    if (auto done = returning.find(owner, sorted); !done) return Failure(std::move(done.error()));
    if (auto done = returning.put_back(actor); !done) return Failure(std::move(done.error()));
    if (auto done = returning.end(owner, actor); !done) return Failure(std::move(done.error()));
    if (auto ended = (*connection)->script("commit", Effect::write, (*connection)->statement_deadline()); !ended) {
        return Failure(std::move(ended.error()));
    }
    std::set<std::string> answered;  // an id a second time is not the owner's any more
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto at = returning.problems().find(canonical_uuid(ids[i]));
        if (at != returning.problems().end() && answered.insert(at->first).second) answers[i] = at->second;
    }
    return answers;
}

}  // namespace deliverd::store::postgres
