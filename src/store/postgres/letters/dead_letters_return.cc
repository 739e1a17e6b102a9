#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr const char* kNotOwners = "another retry has taken it over, or this one has ended";
constexpr const char* kGone = "its row is gone, or no longer dead";
constexpr const char* kNoTable =
    "the table of its lane's events is not known yet: start the lane, and retry after it has given up an event";

using Texts = std::vector<std::optional<std::string>>;

/// Where the events of a lane are; the names quoted, "" for a column that is not there.
struct EventsPlace {
    std::string table, id, id_type, published, retry_count, next_attempt_at, dead_at, event_id;

    [[nodiscard]] std::string same_event() const {
        return event_id.empty() ? "true" : "coalesce(f.event_id = o." + event_id + "::text, true)";
    }
    [[nodiscard]] std::string unpublished() const {
        return published.empty() ? "true" : "o." + published + " is not true";
    }
};

Statement return_statement(const EventsPlace& place) {
    if (place.dead_at.empty()) {
        return statement_by_text("letters_return_event_lines",
                                 filled(letters::sql::return_event_lines, {{"table", place.table},
                                                                           {"id", place.id},
                                                                           {"id_type", place.id_type},
                                                                           {"same_event", place.same_event()},
                                                                           {"unpublished", place.unpublished()}}));
    }
    return statement_by_text("letters_return_events",
                             filled(letters::sql::return_events, {{"table", place.table},
                                                                  {"id", place.id},
                                                                  {"id_type", place.id_type},
                                                                  {"dead_at", place.dead_at},
                                                                  {"retry_count", place.retry_count},
                                                                  {"next_attempt_at", place.next_attempt_at},
                                                                  {"unpublished", place.unpublished()}}));
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
    Returning(Transaction& transaction, const Statements& sql) : transaction_(transaction), sql_(sql) {}

    /// Those of the ids whose retry is the owner's.
    Result<void> find(std::string_view owner, const Texts& ids) {
        TRY_ASSIGN(auto result, transaction_.run(sql_[letters::sql::owned_letters], Params(owner, ids)));
        for (int row = 0; row < PQntuples(result.get()); ++row) {
            std::string id;
            std::optional<std::string> lane, outbox, row_id, schema, table, id_column, published, retry_count,
                next_attempt_at, dead_at, event_id;
            std::string id_type;
            read_row(result.get(), row, id, lane, outbox, row_id, schema, table, id_column, id_type, published,
                     retry_count, next_attempt_at, dead_at, event_id);
            problems_[id] = kGone;
            if (!lane || !row_id) continue;
            Group& group = groups_[{outbox.value_or(""), *lane}];
            const auto name = [](const auto& column) { return column ? quoted(*column) : std::string(); };
            if (table) {
                group.place = EventsPlace{name(schema) + "." + name(table),
                                          name(id_column),
                                          id_type,
                                          name(published),
                                          name(retry_count),
                                          name(next_attempt_at),
                                          name(dead_at),
                                          name(event_id)};
            }
            group.rows.emplace_back(std::move(*row_id));
            group.ids.push_back(std::move(id));
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
            TRY_ASSIGN(auto result, outbox == "memory"
                                        ? transaction_.run(sql_[letters::sql::return_memories], Params(group.rows))
                                    : group.place->dead_at.empty()
                                        ? transaction_.run(return_statement(*group.place), Params(group.rows, lane))
                                        : transaction_.run(return_statement(*group.place), Params(group.rows)));
            std::set<std::string, std::less<>> back;
            Texts rows;
            for (int row = 0; row < PQntuples(result.get()); ++row) {
                back.emplace(text_at(result.get(), row, 0));
                rows.emplace_back(std::string(text_at(result.get(), row, 0)));
            }
            for (std::size_t i = 0; i < group.ids.size(); ++i) {
                if (back.contains(*group.rows[i])) problems_[group.ids[i]].clear();
            }
            TRY(transaction_.run(sql_[letters::sql::note_returned], Params(outbox, rows, actor)));
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
        TRY(transaction_.run(sql_[letters::sql::end_retry], Params(owner, actor, ids, results, details)));
        return {};
    }

    /// By id; those that are not the owner's are not there.
    [[nodiscard]] const std::map<std::string, std::string>& problems() const { return problems_; }

private:
    Transaction& transaction_;
    const Statements& sql_;
    std::map<std::string, std::string> problems_;
    std::map<std::pair<std::string, std::string>, Group> groups_;
};

}  // namespace

Result<std::vector<std::string>> PostgresDeadLetters::return_to_lane(std::string_view owner, std::string_view actor,
                                                                     std::span<const std::string> ids) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    std::vector<std::string> answers(ids.size(), kNotOwners);
    const auto sorted = sorted_ids(ids);
    if (sorted.empty()) return answers;
    TRY_ASSIGN(auto transaction, Transaction::begin(pool_));
    Returning returning(transaction, sql_);
    TRY(returning.find(owner, sorted));
    TRY(returning.put_back(actor));
    TRY(returning.end(owner, actor));
    TRY(transaction.commit());
    std::set<std::string> answered;  // an id a second time is not the owner's any more
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto at = returning.problems().find(canonical_uuid(ids[i]));
        if (at != returning.problems().end() && answered.insert(at->first).second) answers[i] = at->second;
    }
    return answers;
}

}  // namespace deliverd::store::postgres
