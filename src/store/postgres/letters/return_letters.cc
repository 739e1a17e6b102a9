#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

// The statements name the results by number.
static_assert(static_cast<int>(RetryResult::published) == 0 && static_cast<int>(RetryResult::failed) == 1 &&
              static_cast<int>(RetryResult::in_doubt) == 2 && static_cast<int>(RetryResult::not_tried) == 3 &&
              static_cast<int>(RetryResult::unpublished) == 4 && kReturned == 5);

constexpr const char* kNoTable =
    "the table of its lane's events is not known yet: start the lane, and retry after it has given up an event";

using Texts = std::vector<std::string>;

/// Where the events of a lane are; the names quoted, "" for a column that is not there.
struct EventsPlace {
    std::string table, id, id_type, published, retry_count, next_attempt_at, dead_at, event_id;

    [[nodiscard]] bool keeps_failures() const { return !dead_at.empty(); }
};

// A table whose events have no columns for failures has them in deliverd.event_failures, and the failure there decides.
// Its row id may have been given to another event since, where ids start over: an event id distinguishes them.
Statement return_statement(const EventsPlace& place) {
    const std::string same_event =
        place.event_id.empty() ? "true" : "coalesce(f.event_id = o." + place.event_id + "::text, true)";
    const std::string unpublished = place.published.empty() ? "true" : "o." + place.published + " is not true";
    return statement_by_text("letters_return_events", filled(place.keeps_failures() ? letters::sql::return_events
                                                                                    : letters::sql::return_event_lines,
                                                             {{"table", place.table},
                                                              {"id", place.id},
                                                              {"id_type", place.id_type},
                                                              {"dead_at", place.dead_at},
                                                              {"retry_count", place.retry_count},
                                                              {"next_attempt_at", place.next_attempt_at},
                                                              {"same_event", same_event},
                                                              {"unpublished", unpublished}}));
}

/// The letters of one outbox and lane.
struct Group {
    EventsPlace place;
    Texts rows;
    Texts ids;  // of the letters, one a row
};

/// All inside a transaction of the caller's: row, letter and audit change together, or a crash would leave a letter
/// that is RESOLVED and whose row was never put back.
class Returning {
public:
    Returning(Transaction& transaction, const Statements& sql) : transaction_(transaction), sql_(sql) {}

    /// Those of the ids whose retry is the owner's.
    Result<void> find(std::string_view owner, const Texts& ids) {
        TRY_ASSIGN(auto result, transaction_.run(sql_[letters::sql::owned_letters], Params(owner, ids)));
        for (const Row& row : rows_of(result.get())) {
            std::string id, lane, outbox, row_id;
            EventsPlace place;
            row.read(id, lane, outbox, row_id, place.table, place.id, place.id_type, place.published, place.retry_count,
                     place.next_attempt_at, place.dead_at, place.event_id);
            problems_[id] = kRowGone;
            if (row_id.empty()) continue;
            Group& group = groups_[{outbox, lane}];
            group.place = std::move(place);
            group.rows.push_back(std::move(row_id));
            group.ids.push_back(std::move(id));
        }
        return {};
    }

    Result<void> put_back(std::string_view actor) {
        for (const auto& [key, group] : groups_) {
            const auto& [outbox, lane] = key;
            if (outbox != "events" && outbox != "memory") continue;
            // Written with each letter. One that a migration made of an older failure may have none yet.
            if (outbox == "events" && group.place.table.empty()) {
                for (const std::string& id : group.ids) problems_[id] = kNoTable;
                continue;
            }
            Params params(group.rows);
            if (outbox == "events" && !group.place.keeps_failures()) params.text(lane);
            TRY_ASSIGN(auto result, transaction_.run(outbox == "memory" ? sql_[letters::sql::return_memories]
                                                                        : return_statement(group.place),
                                                     std::move(params)));
            const Texts rows = rows_as(result.get(), [](const Row& row) { return row.get<std::string>(); });
            // The others are gone, or somebody has changed them by hand: sent, or open again.
            const std::set<std::string_view> back(rows.begin(), rows.end());
            for (std::size_t i = 0; i < group.ids.size(); ++i) {
                if (back.contains(group.rows[i])) problems_[group.ids[i]].clear();
            }
            TRY(transaction_.run(sql_[letters::sql::note_returned], Params(outbox, rows, actor)));
        }
        return {};
    }

    Result<void> end(std::string_view owner, std::string_view actor) {
        const auto result = [](const auto& letter) {
            return letter.second.empty() ? kReturned : static_cast<std::int32_t>(RetryResult::failed);
        };
        TRY(transaction_.run(
            sql_[letters::sql::end_retry],
            Params(owner, actor, column(problems_, [](const auto& letter) { return letter.first; }),
                   column(problems_, result), column(problems_, [](const auto& letter) { return letter.second; }))));
        return {};
    }

    /// By id, without the letters that are not the owner's.
    [[nodiscard]] std::map<std::string, std::string>& problems() { return problems_; }

private:
    Transaction& transaction_;
    const Statements& sql_;
    std::map<std::string, std::string> problems_;
    std::map<std::pair<std::string, std::string>, Group> groups_;
};

}  // namespace

Result<std::vector<std::string>> return_letters(Pool& pool, const Statements& sql, std::string_view owner,
                                                std::string_view actor, std::span<const std::string> ids) {
    std::vector<std::string> answers(ids.size(), std::string(kRetryEnded));
    const auto sorted = sorted_ids(ids);
    if (sorted.empty()) return answers;
    TRY_ASSIGN(auto transaction, Transaction::begin(pool));
    Returning returning(transaction, sql);
    TRY(returning.find(owner, sorted));
    TRY(returning.put_back(actor));
    TRY(returning.end(owner, actor));
    TRY(transaction.commit());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        // Taken out: when an id comes a second time, its retry has ended.
        if (auto letter = returning.problems().extract(canonical_uuid(ids[i]))) answers[i] = std::move(letter.mapped());
    }
    return answers;
}

}  // namespace deliverd::store::postgres
