#include <map>
#include <utility>

#include "base/try.h"
#include "store/letter_rules.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/letter_retry.h"
#include "store/sqlite/letters/redrive_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {

Result<std::vector<RetryClaim>> SqliteDeadLetters::begin_retry(std::span<const std::string> ids,
                                                               const RetryRequest& request) {
    using Claims = std::vector<RetryClaim>;
    TRY(check_retry_request(request));
    if (ids.empty()) return Claims{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Claims> {
        Claims claims;
        claims.reserve(ids.size());
        for (const std::string& id : ids) {
            TRY_ASSIGN(auto claim, begin_retry_of(handle, id, request, ""));
            claims.push_back(std::move(claim));
        }
        return claims;
    });
}

Result<std::int64_t> SqliteDeadLetters::end_retry(std::string_view owner, std::string_view actor,
                                                  std::span<const RetryEnd> ends) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    if (ends.empty()) return 0;
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        std::int64_t applied = 0;
        for (const RetryEnd& end : ends) {
            TRY_ASSIGN(auto ended, end_retry_of(handle, owner, actor, end));
            applied += ended ? 1 : 0;
        }
        return applied;
    });
}

Result<std::vector<std::string>> SqliteDeadLetters::return_to_lane(std::string_view owner, std::string_view actor,
                                                                   std::span<const std::string> ids) {
    using Problems = std::vector<std::string>;
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    if (ids.empty()) return Problems{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Problems> {
        Problems problems;
        std::map<std::string, RedriveCounts> counts;
        for (const std::string& id : ids) {
            TRY_ASSIGN(auto returned, return_letter(handle, owner, actor, id));
            if (returned.was_owners) {
                RedriveCounts& of_topic = counts[returned.topic];
                (returned.problem.empty() ? of_topic.published : of_topic.failed) += 1;
            }
            problems.push_back(std::move(returned.problem));
        }
        // Where a redrive began them, they are its as well.
        for (const auto& [topic, of_topic] : counts) {
            TRY(add_to_redrive(handle, topic, owner, of_topic));
        }
        return problems;
    });
}

}  // namespace deliverd::store::sqlite
