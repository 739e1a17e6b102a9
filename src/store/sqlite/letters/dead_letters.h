// Dead letters on SQLite. Text is looked for without regard to case in the letters A to Z only.
#pragma once

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

class SqliteDeadLetters final : public DeadLetters {
public:
    /// `file` outlives the letters.
    explicit SqliteDeadLetters(File& file) : file_(file) {}

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
    File& file_;
};

}  // namespace deliverd::store::sqlite
