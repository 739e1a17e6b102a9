#include <string>
#include <utility>

#include "base/text.h"
#include "store/letter_rules.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/letter_retry.h"
#include "store/sqlite/letters/redrive_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

Failure not_owner(std::string_view topic) {
    return permanent("not_owner", "the redrive of " + one_line(topic) + " is somebody else's by now, or has ended");
}

/// The redrive, while it is the owner's. Failure: `not_owner`.
Result<StoredRedrive> owned_redrive(Handle& handle, std::string_view topic, std::string_view owner) {
    auto found = stored_redrive(handle, topic);
    if (!found) return Failure(std::move(found.error()));
    if (!*found || (*found)->owner != owner || (*found)->redrive.finished) return not_owner(topic);
    return std::move(**found);
}

Result<Redrive> redrive_now(Handle& handle, std::string_view topic) {
    auto found = stored_redrive(handle, topic);
    if (!found) return Failure(std::move(found.error()));
    return std::move((*found)->redrive);
}

/// Begins what can be begun of the candidates, until they have so many bytes; those behind are taken off `letters`.
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
        auto claim = begin_retry_of(handle, letter.id, request, redrive_began);
        if (!claim) return Failure(std::move(claim.error()));
        if (claim->verdict != RetryVerdict::begun) continue;
        if (claim->letter) {
            const LetterDetail& begun = *claim->letter;
            counts.taken_over += begun.letter.in_doubt ? 1 : 0;
            const std::size_t payload = begun.record.value ? 0 : begun.letter.payload.value_or("").size();
            bytes += static_cast<std::int64_t>(content_bytes(begun.record) + payload);
        }
        claims.push_back(std::move(*claim));
    }
    return claims;
}

}  // namespace

Result<std::optional<Redrive>> SqliteDeadLetters::open_redrive(std::string_view topic, std::string_view owner,
                                                               std::string_view actor, Duration lease) {
    if (auto ok = check_upkeep_name("topic", topic); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_retry_request({std::string(owner), std::string(actor), lease}); !ok) {
        return Failure(std::move(ok.error()));
    }
    const RedriveOwner who{topic, owner, actor, lease};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Redrive>> {
        auto found = stored_redrive(handle, topic);
        if (!found) return Failure(std::move(found.error()));
        const bool open = *found && !(*found)->redrive.finished;
        const bool own = open && (*found)->owner == owner;
        if (open && !own && (*found)->is_live) return std::nullopt;
        auto done = !open ? start_redrive(handle, who)
                    : own ? renew_redrive(handle, who)
                          : take_redrive(handle, **found, who);
        if (!done) return Failure(std::move(done.error()));
        auto redrive = redrive_now(handle, topic);
        if (!redrive) return Failure(std::move(redrive.error()));
        return std::move(*redrive);
    });
}

Result<std::vector<RetryClaim>> SqliteDeadLetters::next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                                   const RedrivePage& page) {
    using Claims = std::vector<RetryClaim>;
    if (auto ok = check_retry_request(request); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(page.letters); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Claims> {
        auto found = owned_redrive(handle, topic, request.owner);
        if (!found) return Failure(std::move(found.error()));
        RedriveCounts counts;
        Claims claims;
        for (bool more = true; more && claims.empty();) {
            auto letters = redrive_candidates(handle, *found, page);
            if (!letters) return Failure(std::move(letters.error()));
            more = letters->size() == static_cast<std::size_t>(page.letters);
            const std::size_t candidates = letters->size();
            auto begun = begin_candidates(handle, found->started_at, *letters, page.bytes, request, counts);
            if (!begun) return Failure(std::move(begun.error()));
            claims = std::move(*begun);
            more = more || letters->size() < candidates;
            found->redrive.position = more ? letters->back() : found->redrive.up_to;
        }
        if (auto moved = move_redrive(handle, topic, *found->redrive.position); !moved) {
            return Failure(std::move(moved.error()));
        }
        if (auto added = add_to_redrive(handle, topic, request.owner, counts); !added) {
            return Failure(std::move(added.error()));
        }
        auto renewed = renew_redrive(handle, {topic, request.owner, request.actor, request.lease});
        if (!renewed) return Failure(std::move(renewed.error()));
        return claims;
    });
}

Result<std::int64_t> SqliteDeadLetters::end_of_redrive_page(std::string_view topic, std::string_view owner,
                                                            std::string_view actor, std::span<const RetryEnd> ends) {
    if (auto ok = check_retry_request({std::string(owner), std::string(actor)}); !ok) {
        return Failure(std::move(ok.error()));
    }
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        RedriveCounts counts;
        std::int64_t applied = 0;
        for (const RetryEnd& end : ends) {
            auto ended = end_retry_of(handle, owner, actor, end);
            if (!ended) return Failure(std::move(ended.error()));
            if (!*ended) continue;
            ++applied;
            counts.published += end.result == RetryResult::published || end.result == RetryResult::unpublished ? 1 : 0;
            counts.failed += end.result == RetryResult::failed ? 1 : 0;
            counts.in_doubt += end.result == RetryResult::in_doubt ? 1 : 0;
        }
        if (auto added = add_to_redrive(handle, topic, owner, counts); !added) {
            return Failure(std::move(added.error()));
        }
        return applied;
    });
}

Result<Redrive> SqliteDeadLetters::close_redrive(std::string_view topic, std::string_view owner) {
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Redrive> {
        auto found = owned_redrive(handle, topic, owner);
        if (!found) return Failure(std::move(found.error()));
        if (auto done = finish_redrive(handle, topic); !done) return Failure(std::move(done.error()));
        return redrive_now(handle, topic);
    });
}

Result<void> SqliteDeadLetters::release_redrive(std::string_view topic, std::string_view owner) {
    return in_transaction(file_, Durability::full,
                          [&](Handle& handle) -> Result<void> { return give_up_redrive(handle, topic, owner); });
}

Result<std::vector<Redrive>> SqliteDeadLetters::abandoned_redrives() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    return abandoned_rows(**handle);
}

}  // namespace deliverd::store::sqlite
