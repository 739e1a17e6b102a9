#include <array>
#include <limits>
#include <utility>

#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/batch_outbox.h"
#include "store/postgres/cells.h"
#include "store/postgres/dead_letters.h"
#include "store/postgres/letter_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// Before the first there can be.
constexpr std::int64_t kFromTheBeginning = std::numeric_limits<std::int64_t>::min();  // -infinity

}  // namespace

Result<std::optional<Letter>> PostgresDeadLetters::mark_dead(std::string_view id, std::string_view actor) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return std::nullopt;
    Params which;
    which.literal(uuid);
    Params params = which;
    params.text(actor);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    // The lock first and by itself: the change then begins with what stands in the row.
    const std::array steps = {Step{&sql_.lock, &which}, Step{&sql_.mark_dead, &params}};
    auto results = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));
    const PGresult* before = results->front().get();
    if (PQntuples(before) == 0) return std::nullopt;
    return letter_at(before, 0);
}

Result<Removal> PostgresDeadLetters::remove(std::string_view id, std::string_view actor) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return Removal::unknown;
    Params params;
    params.literal(uuid).text(actor);
    auto result = run_once(pool_, sql_.remove, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    if (int64_at(result->get(), 0, 1) == 1) return Removal::removed;
    return int64_at(result->get(), 0, 0) == 1 ? Removal::under_way : Removal::unknown;
}

void PostgresDeadLetters::add_start(Params& params, const std::optional<Purged>& before, Duration age) {
    const std::lock_guard lock(mutex_);
    if (before && before->age == age) {
        params.time(before->to);
    } else {
        params.int64(kFromTheBeginning);
    }
}

Result<std::int64_t> PostgresDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                                std::string_view actor) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    const auto place = static_cast<std::size_t>(status);
    Params params;
    params.text(to_string(status)).float64(to_seconds(age)).int32(limit);
    add_start(params, purged_.at(place), age);
    params.text(actor);
    auto result = run_once(pool_, sql_.purge, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    const std::int64_t gone = int64_at(result->get(), 0, 0);
    const std::lock_guard lock(mutex_);
    purged_.at(place).reset();
    if (gone == limit) purged_.at(place) = Purged{age, time_at(result->get(), 0, 1)};
    return gone;
}

Result<std::int64_t> PostgresDeadLetters::purge_history(Duration age, std::int32_t limit) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    Params params;
    params.float64(to_seconds(age)).int32(limit);
    add_start(params, history_purged_, age);
    auto result = run_once(pool_, sql_.purge_history, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    const std::int64_t gone = int64_at(result->get(), 0, 0);
    const std::lock_guard lock(mutex_);
    history_purged_.reset();
    if (gone == limit && PQgetisnull(result->get(), 0, 1) == 0) {
        history_purged_ = Purged{age, time_at(result->get(), 0, 1)};
    }
    return gone;
}

}  // namespace deliverd::store::postgres
