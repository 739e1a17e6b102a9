// Dead letters on PostgreSQL: schema dlq. A batch is a statement with arrays, a call mostly one round trip.
//
// A retry touches no index. Its begin and its end change a letter's status, which no index contains, and pages are
// filled to 45 per cent, so that both new versions fit beside the first one (HOT). At 60 per cent every fifth version
// went to another page, with an entry in each of six indexes: half of PostgreSQL's work. The price is a table of about
// twice its content, and no index by status. The DEAD, which a letter becomes once, have a table of their own; a
// listing of another rare status walks the letters in their order.
//
// A redrive's page is read where the scan found it, not returned by the update: returned rows are formed anew for the
// common table expression, sorted and formed again, which was a quarter of the whole statement.
#pragma once

#include <array>
#include <string>

#include "base/mutex.h"
#include "store/dead_letters.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// What one statement of store() carries; more goes into further ones of the same transaction.
inline constexpr std::size_t kMaxStoredAtOnce = 1000;
inline constexpr std::size_t kMaxStoredBytesAtOnce = 64U << 20U;
/// How many letters one statement of a purge looks at, at most: some tens of milliseconds.
inline constexpr std::int32_t kMaxLookedAt = 20'000;
/// What a retry's end is called in end_retry's parameters where the row went back to its lane: one more than
/// RetryResult's numbers.
inline constexpr std::int32_t kReturned = 5;

/// Those that are uuids, in their order and each once: so two statements lock the same rows in one order.
[[nodiscard]] std::vector<std::string> sorted_ids(std::span<const std::string> ids);

class PostgresDeadLetters final : public DeadLetters {
public:
    /// `pool` outlives it. `schema` is that of the outbox tables.
    PostgresDeadLetters(Pool& pool, const std::string& schema);

    Result<std::int64_t> store(std::span<const NewLetter> letters) override;

    Result<LetterPage> list(const LetterQuery& query) override;
    Result<std::optional<LetterDetail>> find(std::string_view id) override;
    Result<std::vector<LetterAudit>> audit(std::string_view id, std::int32_t limit) override;
    Result<std::vector<TopicCounts>> topics() override;
    Result<std::vector<Destination>> destinations(std::string_view topic, std::int32_t limit) override;

    Result<std::vector<RetryClaim>> begin_retry(std::span<const std::string> ids, const RetryRequest& request) override;
    Result<std::int64_t> end_retry(std::string_view owner, std::string_view actor,
                                   std::span<const RetryEnd> ends) override;
    Result<std::vector<std::string>> return_to_lane(std::string_view owner, std::string_view actor,
                                                    std::span<const std::string> ids) override;

    Result<std::optional<Redrive>> open_redrive(std::string_view topic, std::string_view owner, std::string_view actor,
                                                Duration lease) override;
    Result<std::vector<RetryClaim>> next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                    const RedrivePage& page) override;
    Result<std::int64_t> end_of_redrive_page(std::string_view topic, std::string_view owner, std::string_view actor,
                                             std::span<const RetryEnd> ends) override;
    Result<Redrive> close_redrive(std::string_view topic, std::string_view owner) override;
    Result<void> release_redrive(std::string_view topic, std::string_view owner) override;
    Result<std::vector<Redrive>> abandoned_redrives() override;

    Result<std::optional<Letter>> mark_dead(std::string_view id, std::string_view actor) override;
    Result<std::optional<Letter>> revive(std::string_view id, std::string_view actor) override;
    Result<Removal> remove(std::string_view id, std::string_view actor) override;
    Result<std::int64_t> purge(LetterStatus status, Duration age, std::int32_t limit, std::string_view actor) override;
    Result<std::int64_t> purge_history(Duration age, std::int32_t limit) override;

private:
    struct PurgePosition {
        Duration age{};
        std::int64_t to = 0;  // as PostgreSQL counts: not clamped to what can be shown
        std::string id;       // of a letter
    };
    /// Locks the letter and runs the statement `change` (id, actor); answers the letter as it was before.
    Result<std::optional<Letter>> change_by_hand(std::string_view id, std::string_view actor, std::string_view change);
    /// Where a purge continues: where the one before it ended, if that was by the same age.
    static PurgePosition start_of(const std::optional<PurgePosition>& before, Duration age);

    Pool& pool_;
    const Statements sql_;
    Mutex mutex_;
    /// By status: a purge that found its limit continues where it ended, behind what it had to leave.
    std::array<std::optional<PurgePosition>, 4> purged_ GUARDED_BY(mutex_);
    /// The same of the audit: what is deleted stays in the index until it is vacuumed.
    std::optional<PurgePosition> history_purged_ GUARDED_BY(mutex_);
};

}  // namespace deliverd::store::postgres
