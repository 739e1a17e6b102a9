#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/try.h"
#include "store/letter_columns.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// What next_of_redrive answers behind the columns of a letter; see sql/redrives.sql.
constexpr int kHeldColumn = kDetailColumns;
constexpr int kLookedColumn = kHeldColumn + 1;
constexpr int kTakenOverColumn = kLookedColumn + 1;

bool older(const RetryClaim& one, const RetryClaim& other) {
    return std::tie(one.letter->letter.created_at, one.id) < std::tie(other.letter->letter.created_at, other.id);
}

}  // namespace

Result<std::optional<Redrive>> PostgresDeadLetters::open_redrive(std::string_view topic, std::string_view owner,
                                                                 std::string_view actor, Duration lease) {
    TRY(check_upkeep_name("topic", topic));
    TRY(check_retry_request({std::string(owner), std::string(actor), lease}));
    const Params whose(topic, owner);
    const Params params(topic, owner, actor, to_seconds(lease));
    // Two statements: the second sees the letters that the first has freed, and the row it locked stays locked between.
    const std::array steps = {Step{&sql_[letters::sql::free_redrive], &whose},
                              Step{&sql_[letters::sql::open_redrive], &params}};
    TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));
    const PGresult* opened = results.back().get();
    if (PQntuples(opened) == 0) return std::nullopt;
    return redrive_at(Row(opened, 0));
}

Result<std::vector<RetryClaim>> PostgresDeadLetters::next_of_redrive(std::string_view topic,
                                                                     const RetryRequest& request,
                                                                     const RedrivePage& page) {
    TRY(check_retry_request(request));
    TRY(check_upkeep_limit(page.letters));
    const Params params(topic, request.owner, page.letters, to_seconds(request.lease), request.actor,
                        std::max<std::int64_t>(1, page.bytes), page.left_out_topics);
    std::vector<RetryClaim> claims;
    // An empty answer means the end, so it must not come from a page whose letters could not be begun. Each turn moves
    // the position, also where all that it looked at was being retried just then.
    for (std::int64_t looked = 1; claims.empty() && looked > 0;) {
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::next_of_redrive], params, Effect::write));
        const PGresult* rows = result.get();
        if (int64_at(rows, 0, kHeldColumn) == 0) return redrive_not_owned(topic);
        looked = int64_at(rows, 0, kLookedColumn);
        claims.reserve(static_cast<std::size_t>(PQntuples(rows)));
        for (const Row& row : rows_of(rows)) {
            if (row.get<std::string_view>().empty()) continue;  // the line without a letter
            LetterDetail detail = detail_at(row);
            std::string id = detail.letter.id;
            claims.push_back(
                {std::move(id), RetryVerdict::begun, {}, std::move(detail), row.get<bool>(kTakenOverColumn)});
        }
    }
    // The statement answers in no order: sorting there would sort whole rows, and nearly always they come sorted.
    if (!std::ranges::is_sorted(claims, older)) std::ranges::sort(claims, older);
    return claims;
}

Result<std::int64_t> PostgresDeadLetters::end_of_redrive_page(std::string_view /*topic*/, std::string_view owner,
                                                              std::string_view actor, std::span<const RetryEnd> ends) {
    // An owner has one redrive: what it began counts there.
    return end_retry(owner, actor, ends);
}

Result<Redrive> PostgresDeadLetters::close_redrive(std::string_view topic, std::string_view owner) {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::close_redrive], Params(topic, owner), Effect::write));
    if (PQntuples(result.get()) == 0) return redrive_not_owned(topic);
    return redrive_at(Row(result.get(), 0));
}

Result<void> PostgresDeadLetters::release_redrive(std::string_view topic, std::string_view owner) {
    TRY(run_once(pool_, sql_[letters::sql::release_redrive], Params(topic, owner), Effect::write));
    return {};
}

Result<std::vector<Redrive>> PostgresDeadLetters::abandoned_redrives() {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::abandoned_redrives], Params(), Effect::read));
    return rows_as(result.get(), &redrive_at<Row>);
}

}  // namespace deliverd::store::postgres
