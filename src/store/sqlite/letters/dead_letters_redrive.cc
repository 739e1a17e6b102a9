#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/json_text.h"
#include "base/try.h"
#include "client/sql_values.h"
#include "store/letter_columns.h"
#include "store/letter_rules.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

struct StoredRedrive {
    Redrive redrive;
    std::string owner;
    bool is_live = false;    // the owner's lease has not run out
    std::string started_at;  // as the tables have times
};

StoredRedrive stored_redrive_at(const SqliteStatement& row) {
    StoredRedrive found{redrive_at(row), {}, false, {}};
    row.read_from(kRedriveColumns, found.owner, found.is_live, found.started_at);
    return found;
}

LetterCursor cursor_at(const SqliteStatement& row) {
    return {row.get<WallTime>(0), row.get<std::string>(1)};
}

/// Before every letter.
LetterCursor beginning() {
    return {WallTime{}, std::string(kLowestLetterId)};
}

std::string json_array(std::span<const std::string> texts) {
    std::string out = "[";
    for (const std::string& text : texts) {
        if (out.size() > 1) out += ',';
        append_json_string(out, text);
    }
    return out + "]";
}

Result<std::optional<StoredRedrive>> stored_redrive(Handle& handle, std::string_view topic) {
    return handle.one(letters::sql::find_redrive, &stored_redrive_at, topic);
}

/// The redrive, while it is the owner's. Failure: `not_owner`.
Result<StoredRedrive> owned_redrive(Handle& handle, std::string_view topic, std::string_view owner) {
    TRY_ASSIGN(auto found, stored_redrive(handle, topic));
    if (!found || found->owner != owner || found->redrive.finished) return redrive_not_owned(topic);
    return std::move(*found);
}

Result<Redrive> redrive_now(Handle& handle, std::string_view topic) {
    TRY_ASSIGN(auto found, stored_redrive(handle, topic));
    ASSERT(found);  // in the same transaction
    return std::move(found->redrive);
}

/// Letters that can be retried, behind the position, oldest first; as many as the page has, whatever their bytes.
Result<std::vector<LetterCursor>> redrive_candidates(Handle& handle, const StoredRedrive& found,
                                                     const RedrivePage& page) {
    const Redrive& redrive = found.redrive;
    const LetterCursor from = redrive.position.value_or(beginning());
    return handle.all(letters::sql::redrive_candidates, &cursor_at, redrive.topic, letter_time(from.created_at),
                      from.id, letter_time(redrive.up_to.created_at), redrive.up_to.id, found.started_at, page.letters,
                      json_array(page.left_out_topics));
}

/// Begins what can be begun of the candidates, until they reach `most_bytes`; those behind are removed from `letters`.
Result<std::vector<RetryClaim>> begin_candidates(Handle& handle, std::string_view redrive_began,
                                                 std::vector<LetterCursor>& letters, std::int64_t most_bytes,
                                                 const RetryRequest& request) {
    std::vector<RetryClaim> claims;
    claims.reserve(letters.size());
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        if (!claims.empty() && bytes >= most_bytes) {
            letters.resize(i);
            break;
        }
        TRY_ASSIGN(auto claim, begin_retry_of(handle, letters[i].id, request, redrive_began));
        if (claim.verdict != RetryVerdict::begun) continue;
        ASSERT(claim.letter);  // all but unknown letters come with the claim
        const auto& [letter, record] = *claim.letter;
        const std::size_t payload = record.value ? 0 : letter.payload.value_or("").size();
        bytes += static_cast<std::int64_t>(content_bytes(record) + payload);
        claims.push_back(std::move(claim));
    }
    return claims;
}

}  // namespace

Result<std::optional<Redrive>> SqliteDeadLetters::open_redrive(std::string_view topic, std::string_view owner,
                                                               std::string_view actor, Duration lease) {
    TRY(check_upkeep_name("topic", topic));
    TRY(check_retry_request({std::string(owner), std::string(actor), lease}));
    const std::string until = client::time_ahead(lease);
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::optional<Redrive>> {
        TRY_ASSIGN(const auto found, stored_redrive(handle, topic));
        if (!found || found->redrive.finished) {
            TRY_ASSIGN(const auto newest, handle.one(letters::sql::newest_letter, &cursor_at, topic));
            const LetterCursor up_to = newest.value_or(beginning());
            TRY(handle.run(letters::sql::start_redrive, topic, actor, owner, until, letter_time(up_to.created_at),
                           up_to.id));
        } else {
            if (found->owner != owner) {
                if (found->is_live) return std::nullopt;
                // What the owner before had begun and not ended is free at once (free_letters finds it by that owner),
                // and found again from the beginning.
                TRY(handle.run(letters::sql::free_letters, found->owner, topic));
                TRY(handle.run(letters::sql::restart_redrive, topic));
            }
            TRY(handle.run(letters::sql::own_redrive, topic, owner, until));
        }
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
        std::optional<LetterCursor>& position = found.redrive.position;
        Claims claims;
        // Each turn moves the position: an empty answer means the end, so it must not come from letters that could not
        // be begun.
        for (bool more = true; more && claims.empty();) {
            TRY_ASSIGN(auto letters, redrive_candidates(handle, found, page));
            const std::size_t candidates = letters.size();
            TRY_ASSIGN(claims, begin_candidates(handle, found.started_at, letters, page.bytes, request));
            more = candidates == static_cast<std::size_t>(page.letters) || letters.size() < candidates;
            position = more ? letters.back() : found.redrive.up_to;
        }
        const auto taken_over =
            std::ranges::count_if(claims, [](const RetryClaim& claim) { return claim.letter->letter.in_doubt; });
        TRY(handle.run(letters::sql::move_redrive, topic, letter_time(position->created_at), position->id, taken_over,
                       client::time_ahead(request.lease)));
        return claims;
    });
}

Result<std::int64_t> SqliteDeadLetters::end_of_redrive_page(std::string_view /*topic*/, std::string_view owner,
                                                            std::string_view actor, std::span<const RetryEnd> ends) {
    return end_retry(owner, actor, ends);  // which counts for the redrive that the owner has
}

Result<Redrive> SqliteDeadLetters::close_redrive(std::string_view topic, std::string_view owner) {
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Redrive> {
        TRY(owned_redrive(handle, topic, owner));
        TRY(handle.run(letters::sql::finish_redrive, topic));
        return redrive_now(handle, topic);
    });
}

Result<void> SqliteDeadLetters::release_redrive(std::string_view topic, std::string_view owner) {
    return in_transaction(file_, Durability::full,
                          [&](Handle& handle) { return handle.run(letters::sql::give_up_redrive, topic, owner); });
}

Result<std::vector<Redrive>> SqliteDeadLetters::abandoned_redrives() {
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(letters::sql::abandoned_redrives, &redrive_at<SqliteStatement>);
}

}  // namespace deliverd::store::sqlite
