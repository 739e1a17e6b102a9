#include <map>
#include <utility>

#include "store/letter_rules.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/letter_retry.h"
#include "store/sqlite/letters/redrive_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {

Result<std::vector<RetryClaim>> SqliteDeadLetters::begin_retry(std::span<const std::string> ids,
                                                               const RetryRequest& request) {
    using Claims = std::vector<RetryClaim>;
    if (auto ok = check_retry_request(request); !ok) return Failure(std::move(ok.error()));
    if (ids.empty()) return Claims{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Claims> {
        Claims claims;
        claims.reserve(ids.size());
        for (const std::string& id : ids) {
            auto claim = begin_retry_of(handle, id, request, "");
            if (!claim) return Failure(std::move(claim.error()));
            claims.push_back(std::move(*claim));
        }
        return claims;
    });
}

Result<std::int64_t> SqliteDeadLetters::end_retry(std::string_view owner, std::string_view actor,
                                                  std::span<const RetryEnd> ends) {
    if (auto ok = check_retry_request({std::string(owner), std::string(actor)}); !ok) {
        return Failure(std::move(ok.error()));
    }
    if (ends.empty()) return 0;
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        std::int64_t applied = 0;
        for (const RetryEnd& end : ends) {
            auto ended = end_retry_of(handle, owner, actor, end);
            if (!ended) return Failure(std::move(ended.error()));
            applied += *ended ? 1 : 0;
        }
        return applied;
    });
}

Result<std::vector<std::string>> SqliteDeadLetters::return_to_lane(std::string_view owner, std::string_view actor,
                                                                   std::span<const std::string> ids) {
    using Problems = std::vector<std::string>;
    if (auto ok = check_retry_request({std::string(owner), std::string(actor)}); !ok) {
        return Failure(std::move(ok.error()));
    }
    if (ids.empty()) return Problems{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Problems> {
        Problems problems;
        std::map<std::string, RedriveCounts> counts;
        for (const std::string& id : ids) {
            auto returned = return_letter(handle, owner, actor, id);
            if (!returned) return Failure(std::move(returned.error()));
            if (returned->was_owners) {
                RedriveCounts& of_topic = counts[returned->topic];
                (returned->problem.empty() ? of_topic.published : of_topic.failed) += 1;
            }
            problems.push_back(std::move(returned->problem));
        }
        // Where a redrive began them, they are its as well.
        for (const auto& [topic, of_topic] : counts) {
            if (auto added = add_to_redrive(handle, topic, owner, of_topic); !added) {
                return Failure(std::move(added.error()));
            }
        }
        return problems;
    });
}

}  // namespace deliverd::store::sqlite
