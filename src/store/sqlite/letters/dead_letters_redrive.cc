#include <string>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "store/letter_rules.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/letter_retry.h"
#include "store/sqlite/letters/redrive_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

Failure not_owner(std::string_view topic) {
    return permanent(codes::kNotOwner,
                     "the redrive of " + one_line(topic) + " is somebody else's by now, or has ended");
}

/// The redrive, while it is the owner's. Failure: `not_owner`.
Result<StoredRedrive> owned_redrive(Handle& handle, std::string_view topic, std::string_view owner) {
    TRY_ASSIGN(auto found, stored_redrive(handle, topic));
    if (!found || found->owner != owner || found->redrive.finished) return not_owner(topic);
    return std::move(*found);
}

Result<Redrive> redrive_now(Handle& handle, std::string_view topic) {
    TRY_ASSIGN(auto found, stored_redrive(handle, topic));
    return std::move(found->redrive);
}

/// Begins what can be begun of the candidates, until they reach `most_bytes`; those behind are removed from `letters`.
Result<std::vector<RetryClaim>> begin_candidates(Handle& handle, std::string_view redrive_began,
                                                 std::vector<LetterCursor>& letters, std::int64_t most_bytes,
                                                 const RetryRequest& request, RedriveCounts& counts) {
    std::vector<RetryClaim> claims;
    claims.reserve(letters.size());
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        if (!claims.empty() && bytes >= most_bytes) {
            letters.resize(i);
            break;
        }
        const LetterCursor& letter = letters[i];
        TRY_ASSIGN(auto claim, begin_retry_of(handle, letter.id, request, redrive_began));
        if (claim.verdict != RetryVerdict::begun) continue;
        if (claim.letter) {
            const LetterDetail& begun = *claim.letter;
            counts.taken_over += begun.letter.in_doubt ? 1 : 0;
            const std::size_t payload = begun.record.value ? 0 : begun.letter.payload.value_or("").size();
            bytes += static_cast<std::int64_t>(content_bytes(begun.record) + payload);
        }
        claims.push_back(std::move(claim));
    }
    return claims;
}

}  // namespace

Result<std::optional<Redrive>> SqliteDeadLetters::open_redrive(std::string_view topic, std::string_view owner,
                                                               std::string_view actor, Duration lease) {
    TRY(check_upkeep_name("topic", topic));
    TRY(check_retry_request({std::string(owner), std::string(actor), lease}));
    const RedriveOwner who{topic, owner, actor, lease};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Redrive>> {
        TRY_ASSIGN(auto found, stored_redrive(handle, topic));
        const bool open = found && !found->redrive.finished;
        const bool own = open && found->owner == owner;
        if (open && !own && found->is_live) return std::nullopt;
        TRY(!open ? start_redrive(handle, who) : own ? renew_redrive(handle, who) : take_redrive(handle, *found, who));
        TRY_ASSIGN(auto redrive, redrive_now(handle, topic));
        return redrive;
    });
}

Result<std::vector<RetryClaim>> SqliteDeadLetters::next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                                   const RedrivePage& page) {
    using Claims = std::vector<RetryClaim>;
    TRY(check_retry_request(request));
    TRY(check_upkeep_limit(page.letters));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Claims> {
        TRY_ASSIGN(auto found, owned_redrive(handle, topic, request.owner));
        RedriveCounts counts;
        Claims claims;
        for (bool more = true; more && claims.empty();) {
            TRY_ASSIGN(auto letters, redrive_candidates(handle, found, page));
            more = letters.size() == static_cast<std::size_t>(page.letters);
            const std::size_t candidates = letters.size();
            TRY_ASSIGN(auto begun, begin_candidates(handle, found.started_at, letters, page.bytes, request, counts));
            claims = std::move(begun);
            more = more || letters.size() < candidates;
            found.redrive.position = more ? letters.back() : found.redrive.up_to;
        }
        TRY(move_redrive(handle, topic, *found.redrive.position));
        TRY(add_to_redrive(handle, topic, request.owner, counts));
        TRY(renew_redrive(handle, {topic, request.owner, request.actor, request.lease}));
        return claims;
    });
}

Result<std::int64_t> SqliteDeadLetters::end_of_redrive_page(std::string_view topic, std::string_view owner,
                                                            std::string_view actor, std::span<const RetryEnd> ends) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        RedriveCounts counts;
        std::int64_t applied = 0;
        for (const RetryEnd& end : ends) {
            TRY_ASSIGN(auto ended, end_retry_of(handle, owner, actor, end));
            if (!ended) continue;
            ++applied;
            counts.published += end.result == RetryResult::published || end.result == RetryResult::unpublished ? 1 : 0;
            counts.failed += end.result == RetryResult::failed ? 1 : 0;
            counts.in_doubt += end.result == RetryResult::in_doubt ? 1 : 0;
        }
        TRY(add_to_redrive(handle, topic, owner, counts));
        return applied;
    });
}

Result<Redrive> SqliteDeadLetters::close_redrive(std::string_view topic, std::string_view owner) {
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Redrive> {
        TRY(owned_redrive(handle, topic, owner));
        TRY(finish_redrive(handle, topic));
        return redrive_now(handle, topic);
    });
}

Result<void> SqliteDeadLetters::release_redrive(std::string_view topic, std::string_view owner) {
    return in_transaction(file_, Durability::full,
                          [&](Handle& handle) -> Result<void> { return give_up_redrive(handle, topic, owner); });
}

Result<std::vector<Redrive>> SqliteDeadLetters::abandoned_redrives() {
    TRY_ASSIGN(auto handle, file_.reader());
    return abandoned_rows(*handle);
}

}  // namespace deliverd::store::sqlite
