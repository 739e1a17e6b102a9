#include <array>
#include <utility>

#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_query.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {

Result<LetterPage> PostgresDeadLetters::list(const LetterQuery& query) {
    if (auto ok = check_letter_query(query); !ok) return Failure(std::move(ok.error()));
    if (query.after && canonical_uuid(query.after->id).empty()) {
        return permanent("bad_argument", "the position is not one of this store's");
    }
    const LetterSelect page = select_page(query);
    const LetterSelect total = select_total(query);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const std::array steps = {Step{&page.statement, &page.params}, Step{&total.statement, &total.params}};
    auto results = (*connection)->run(steps, Effect::read, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));

    LetterPage out;
    const PGresult* rows = results->front().get();
    out.has_next = PQntuples(rows) > query.limit;
    const int count = out.has_next ? query.limit : PQntuples(rows);
    out.letters.reserve(static_cast<std::size_t>(count));
    for (int row = 0; row < count; ++row) {
        out.letters.push_back(letter_at(rows, row));
        out.letters.back().payload_left_out = bool_at(rows, row, kLetterColumns);
    }
    out.total = int64_at(results->back().get(), 0, 0);
    out.total_is_minimum = !is_counted(query) && out.total > kMaxCounted;
    if (out.total_is_minimum) out.total = kMaxCounted;
    return out;
}

Result<std::optional<LetterDetail>> PostgresDeadLetters::find(std::string_view id) {
    const std::string text(id);
    const auto ids = sorted_ids({&text, 1});
    if (ids.empty()) return std::nullopt;
    Params params;
    params.text_array(ids);
    auto result = run_once(pool_, sql_.find, params, Effect::read);
    if (!result) return Failure(std::move(result.error()));
    if (PQntuples(result->get()) == 0) return std::nullopt;
    return detail_at(result->get(), 0);
}

Result<std::vector<LetterAudit>> PostgresDeadLetters::audit(std::string_view id, std::int32_t limit) {
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    std::vector<LetterAudit> lines;
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return lines;
    Params params;
    params.literal(uuid).int32(limit);
    auto result = run_once(pool_, sql_.audit, params, Effect::read);
    if (!result) return Failure(std::move(result.error()));
    const PGresult* rows = result->get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        lines.push_back({time_at(rows, row, 0), std::string(text_at(rows, row, 1)), std::string(text_at(rows, row, 2)),
                         optional_text_at(rows, row, 3), optional_text_at(rows, row, 4),
                         optional_text_at(rows, row, 5)});
    }
    return lines;
}

Result<std::vector<TopicCounts>> PostgresDeadLetters::topics() {
    auto result = run_once(pool_, sql_.topics, Params(), Effect::read);
    if (!result) return Failure(std::move(result.error()));
    std::vector<TopicCounts> topics;
    const PGresult* rows = result->get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        topics.push_back({std::string(text_at(rows, row, 0)), std::string(text_at(rows, row, 1)),
                          int64_at(rows, row, 2), int64_at(rows, row, 3), int64_at(rows, row, 4),
                          int64_at(rows, row, 5), time_at(rows, row, 6)});
    }
    return topics;
}

Result<std::vector<Destination>> PostgresDeadLetters::destinations(std::string_view topic, std::int32_t limit) {
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    Params params;
    params.text(topic).int32(limit);
    auto result = run_once(pool_, sql_.destinations, params, Effect::read);
    if (!result) return Failure(std::move(result.error()));
    std::vector<Destination> found;
    const PGresult* rows = result->get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        found.push_back(
            {std::string(text_at(rows, row, 0)), std::string(text_at(rows, row, 1)), int64_at(rows, row, 2)});
    }
    return found;
}

}  // namespace deliverd::store::postgres
