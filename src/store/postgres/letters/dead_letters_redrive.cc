#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// What next_of_redrive answers behind the columns of a letter: whether the redrive is the owner's, how many letters
/// were looked at, and whether this one's retry goes on with another. One line without a letter where none was begun.
constexpr int kHeldColumn = kLetterDetailColumns;
constexpr int kLookedColumn = kHeldColumn + 1;
constexpr int kTakenOverColumn = kLookedColumn + 1;

Failure not_owner(std::string_view topic) {
    return permanent("not_owner", "the redrive of " + one_line(topic) + " is somebody else's by now, or has ended");
}

bool older(const RetryClaim& one, const RetryClaim& other) {
    return std::tie(one.letter->letter.created_at, one.id) < std::tie(other.letter->letter.created_at, other.id);
}

}  // namespace

Result<std::optional<Redrive>> PostgresDeadLetters::open_redrive(std::string_view topic, std::string_view owner,
                                                                 std::string_view actor, Duration lease) {
    if (auto ok = check_upkeep_name("topic", topic); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_retry_request({std::string(owner), std::string(actor), lease}); !ok) {
        return Failure(std::move(ok.error()));
    }
    Params whose;
    whose.text(topic).text(owner);
    Params params = whose;
    params.text(actor).float64(to_seconds(lease));
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const std::array steps = {Step{&redrives_.free, &whose}, Step{&redrives_.open, &params}};
    auto results = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));
    const PGresult* opened = results->back().get();
    if (PQntuples(opened) == 0) return std::nullopt;
    return redrive_at(opened, 0);
}

Result<std::vector<RetryClaim>> PostgresDeadLetters::next_of_redrive(std::string_view topic,
                                                                     const RetryRequest& request,
                                                                     const RedrivePage& page) {
    if (auto ok = check_retry_request(request); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(page.letters); !ok) return Failure(std::move(ok.error()));
    Params params;
    params.text(topic).text(request.owner).int32(page.letters).float64(to_seconds(request.lease)).text(request.actor);
    params.int64(std::max<std::int64_t>(1, page.bytes));
    params.text_array(
        std::vector<std::optional<std::string>>(page.left_out_topics.begin(), page.left_out_topics.end()));
    std::vector<RetryClaim> claims;
    // Each turn moves the position, also where all that it looked at was somebody's just then.
    for (std::int64_t looked = 1; claims.empty() && looked > 0;) {
        auto result = run_once(pool_, redrives_.next, params, Effect::write);
        if (!result) return Failure(std::move(result.error()));
        const PGresult* rows = result->get();
        if (int64_at(rows, 0, kHeldColumn) == 0) return not_owner(topic);
        looked = int64_at(rows, 0, kLookedColumn);
        claims.reserve(static_cast<std::size_t>(PQntuples(rows)));
        for (int row = 0; row < PQntuples(rows); ++row) {
            if (null_at(rows, row, kLetterId)) continue;
            LetterDetail detail = detail_at(rows, row);
            std::string id = detail.letter.id;
            claims.push_back(
                {std::move(id), RetryVerdict::begun, {}, std::move(detail), bool_at(rows, row, kTakenOverColumn)});
        }
    }
    if (!std::ranges::is_sorted(claims, older)) std::ranges::sort(claims, older);
    return claims;
}

Result<std::int64_t> PostgresDeadLetters::end_of_redrive_page(std::string_view /*topic*/, std::string_view owner,
                                                              std::string_view actor, std::span<const RetryEnd> ends) {
    // An owner has one redrive: what it began counts there.
    return end_retry(owner, actor, ends);
}

Result<Redrive> PostgresDeadLetters::close_redrive(std::string_view topic, std::string_view owner) {
    Params params;
    params.text(topic).text(owner);
    auto result = run_once(pool_, redrives_.close, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    if (PQntuples(result->get()) == 0) return not_owner(topic);
    return redrive_at(result->get(), 0);
}

Result<void> PostgresDeadLetters::release_redrive(std::string_view topic, std::string_view owner) {
    Params params;
    params.text(topic).text(owner);
    auto result = run_once(pool_, redrives_.release, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    return {};
}

Result<std::vector<Redrive>> PostgresDeadLetters::abandoned_redrives() {
    auto result = run_once(pool_, redrives_.abandoned, Params(), Effect::read);
    if (!result) return Failure(std::move(result.error()));
    std::vector<Redrive> redrives;
    for (int row = 0; row < PQntuples(result->get()); ++row) redrives.push_back(redrive_at(result->get(), row));
    return redrives;
}

}  // namespace deliverd::store::postgres
