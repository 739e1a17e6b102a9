// Dead letters on PostgreSQL: schema dlq. A batch is a statement with arrays, a call mostly one round trip.
#pragma once

#include <array>
#include <mutex>
#include <string>

#include "store/dead_letters.h"
#include "store/postgres/connection/pool.h"
#include "store/postgres/letters/dead_letters_sql.h"
#include "store/postgres/letters/redrive_sql.h"

namespace deliverd::store::postgres {

/// What one statement of store() carries; more goes into further ones of the same transaction.
inline constexpr std::size_t kMaxStoredAtOnce = 1000;
inline constexpr std::size_t kMaxStoredBytesAtOnce = 64U << 20U;

class PostgresDeadLetters final : public DeadLetters {
public:
    /// `pool` outlives it. `schema` is that of the outbox tables.
    PostgresDeadLetters(Pool& pool, const std::string& schema) : pool_(pool), sql_(schema) {}

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
    struct Purged {
        Duration age{};
        std::int64_t to = 0;  // as PostgreSQL counts: not clamped to what can be shown
        std::string id;       // of a letter
    };
    /// Locks the letter and runs `change` (id, actor); answers the letter as it was before.
    Result<std::optional<Letter>> change_by_hand(std::string_view id, std::string_view actor, const Statement& change);
    /// Where a purge goes on: where the one before it ended, if that was by the same age.
    Purged start_of(const std::optional<Purged>& before, Duration age);

    Pool& pool_;
    const DeadLetterStatements sql_;
    const RedriveStatements redrives_;
    std::mutex mutex_;
    /// By status: a purge that found its limit is gone on with where it ended, past what it had to leave.
    std::array<std::optional<Purged>, 4> purged_;
    /// The same of the audit: what is deleted stays in the index until it is vacuumed.
    std::optional<Purged> history_purged_;
};

}  // namespace deliverd::store::postgres
