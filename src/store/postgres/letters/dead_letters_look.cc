#include <array>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "deliverd/error_codes.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_query.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/postgres/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {

PostgresDeadLetters::PostgresDeadLetters(Pool& pool, const std::string& schema)
    : pool_(pool), sql_(schema, {letters::sql::all}) {}

Result<LetterPage> PostgresDeadLetters::list(const LetterQuery& query) {
    TRY(check_letter_query(query));
    if (query.after && canonical_uuid(query.after->id).empty()) {
        return permanent(codes::kBadArgument, "the position is not one of this store's");
    }
    const LetterSelect page = select_page(query);
    const LetterSelect total = select_total(query);
    TRY_ASSIGN(auto connection, pool_.borrow());
    const std::array steps = {Step{&page.statement, &page.params}, Step{&total.statement, &total.params}};
    TRY_ASSIGN(auto results, connection->run(steps, Effect::read, connection->statement_deadline()));

    LetterPage out;
    const PGresult* rows = results.front().get();
    out.has_next = PQntuples(rows) > query.limit;
    const int count = out.has_next ? query.limit : PQntuples(rows);
    out.letters.reserve(static_cast<std::size_t>(count));
    for (int row = 0; row < count; ++row) {
        out.letters.push_back(letter_at(rows, row));
        out.letters.back().payload_left_out = bool_at(rows, row, kLetterColumns);
    }
    out.total = int64_at(results.back().get(), 0, 0);
    out.total_is_minimum = !is_counted(query) && out.total > kMaxCounted;
    if (out.total_is_minimum) out.total = kMaxCounted;
    return out;
}

Result<std::optional<LetterDetail>> PostgresDeadLetters::find(std::string_view id) {
    const std::string text(id);
    const auto ids = sorted_ids({&text, 1});
    if (ids.empty()) return std::nullopt;
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::find_letters], Params(ids), Effect::read));
    if (PQntuples(result.get()) == 0) return std::nullopt;
    return detail_at(result.get(), 0);
}

Result<std::vector<LetterAudit>> PostgresDeadLetters::audit(std::string_view id, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    std::vector<LetterAudit> lines;
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return lines;
    TRY_ASSIGN(auto result,
               run_once(pool_, sql_[letters::sql::letter_audit], Params(std::optional{uuid}, limit), Effect::read));
    const PGresult* rows = result.get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        LetterAudit& line = lines.emplace_back();
        read_row(rows, row, line.at, line.action, line.actor, line.status_from, line.status_to, line.detail);
    }
    return lines;
}

Result<std::vector<TopicCounts>> PostgresDeadLetters::topics() {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::topics], Params(), Effect::read));
    std::vector<TopicCounts> topics;
    const PGresult* rows = result.get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        TopicCounts& one = topics.emplace_back();
        read_row(rows, row, one.topic, one.source, one.pending, one.retrying, one.resolved, one.dead, one.newest_at);
    }
    return topics;
}

Result<std::vector<Destination>> PostgresDeadLetters::destinations(std::string_view topic, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::destinations], Params(topic, limit), Effect::read));
    std::vector<Destination> found;
    const PGresult* rows = result.get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        Destination& one = found.emplace_back();
        read_row(rows, row, one.topic, one.source, one.letters);
    }
    return found;
}

}  // namespace deliverd::store::postgres
