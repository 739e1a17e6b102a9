#include "store/sqlite/letters/dead_letters.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/json_text.h"
#include "base/random.h"
#include "base/text.h"
#include "base/try.h"
#include "base/uuid.h"
#include "client/sql_values.h"
#include "store/letter_columns.h"
#include "store/record_headers.h"
#include "store/sqlite/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

/// codes::kLetterRefused only where the letter itself is at fault. Anything else, such as a table that is missing for a
/// moment, must not make ingest strip records of their payloads.
Error refusal_of(Handle& handle, Error error) {
    const int code = sqlite3_errcode(handle.raw()) & 0xFF;
    if (code == SQLITE_TOOBIG || code == SQLITE_CONSTRAINT || code == SQLITE_MISMATCH)
        error.code = codes::kLetterRefused;
    return error;
}

/// Whether it was new.
Result<bool> store_letter(Handle& handle, const NewLetter& letter, std::string_view id, std::string_view now) {
    const Record& record = letter.record;
    const Provenance& from = letter.provenance;
    // None where the record has no topic: the index of places holds only letters that have one.
    const auto of_record = [&](auto value) { return record.topic.empty() ? std::nullopt : std::optional(value); };
    auto stored =
        handle.change(letters::sql::store_letter, letter.id.empty() ? id : letter.id, now,
                      of_record(std::string_view(record.topic)), of_record(record.partition), of_record(record.offset),
                      record.timestamp_ms, record_time_name(record.timestamp_type), client::Blob{record.key},
                      client::Blob{record.value}, record_headers_json(record.headers), letter.payload, letter.truncated,
                      from.original_topic, from.original_partition, from.original_offset, from.error_message,
                      from.error_class, from.stack_trace, from.producer, letter.source);
    if (!stored) return Failure(refusal_of(handle, std::move(stored.error())));
    return *stored == 1;
}

/// A retry whose process is gone is in doubt before anybody has recorded that.
void show_doubt(Letter& letter) {
    letter.in_doubt = letter.in_doubt || letter.unfinished;
}

/// `so_far`: what the long payloads before it have.
void leave_out_long_payload(Letter& letter, std::int64_t& so_far) {
    if (!letter.payload) return;
    const auto bytes = letter.value_bytes > 0 ? letter.value_bytes : static_cast<std::int64_t>(letter.payload->size());
    if (bytes <= kShortPayloadBytes) return;
    so_far += bytes;
    if (so_far <= kMaxLongPayloadBytes) return;
    letter.payload.reset();
    letter.payload_left_out = true;
}

/// One more than the page has: whether there is a next one.
std::int64_t rows_of(const LetterQuery& query) {
    return std::int64_t{query.limit} + 1;
}

std::int64_t offset_of(const LetterQuery& query) {
    return query.after ? 0 : query.offset;
}

/// Runs a statement of a listing with the parameters that it numbers.
template <typename Read>
Result<void> run_query(Handle& handle, const std::string& sql, const LetterQuery& query, std::int64_t at_most,
                       Read read) {
    using Text = std::optional<std::string>;
    const auto time = [](const std::optional<WallTime>& at) { return at ? Text(letter_time(*at)) : std::nullopt; };
    const LetterCursor after = query.after.value_or(LetterCursor{});
    return handle.each(sql, read, query.topic, query.status ? std::optional(to_string(*query.status)) : std::nullopt,
                       query.source, query.error_class, time(query.from), time(query.until),
                       query.text ? Text(ascii_lower(*query.text)) : std::nullopt, client::Blob{query.key},
                       letter_time(after.created_at), after.id, rows_of(query), offset_of(query), at_most);
}

/// Runs the statement `change` where `may` allows it for the letter, and audits it as `step` says. Answers the letter
/// as it was before.
Result<std::optional<Letter>> change_by_hand(File& file, std::string_view id, bool (*may)(const StoredLetter&),
                                             std::string_view change, LetterStep step) {
    TRY(check_upkeep_name("actor", step.actor));
    return in_transaction(file, Durability::full, [&](Handle& handle) -> Result<std::optional<Letter>> {
        TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
        if (!stored) return std::nullopt;
        Letter& letter = stored->detail.letter;
        if (may(*stored)) {
            TRY(handle.run(change, letter.id));
            step.status_from = to_string(letter.status);
            TRY(audit_letter(handle, letter.id, step));
        }
        return std::move(letter);
    });
}

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

class SqliteDeadLetters final : public DeadLetters {
public:
    explicit SqliteDeadLetters(File& file) : file_(file) {}

    Result<std::int64_t> store(std::span<const NewLetter> letters) override {
        for (const NewLetter& letter : letters) {
            TRY(check_letter(letter));
        }
        if (letters.empty()) return 0;
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
            SystemRandom random;
            const WallTime now = SystemClock().wall_now();
            const std::string now_text = rfc3339_millis(now);
            std::int64_t fresh = 0;
            for (std::size_t i = 0; i < letters.size(); ++i) {
                TRY_ASSIGN(auto stored, store_letter(handle, letters[i], letter_id(now, i, random), now_text));
                fresh += stored ? 1 : 0;
            }
            return fresh;
        });
    }

    Result<LetterPage> list(const LetterQuery& query) override {
        TRY(check_letter_query(query));
        // No index has text or key: such a listing reads every letter, and on the common connection all lanes and
        // requests would wait for it.
        TRY_ASSIGN(auto handle, query.text || query.key ? file_.searcher() : file_.reader());
        // Page and total of one moment.
        TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));
        LetterPage page;
        std::int64_t long_payload_bytes = 0;
        const std::int64_t rows = rows_of(query) + offset_of(query);
        TRY(run_query(*handle, letter_page_sql(query), query, rows, [&](const SqliteStatement& row) {
            Letter& letter = page.letters.emplace_back(letter_at(row));
            drop_unreadable_payload(letter);
            show_doubt(letter);
            letter.provenance.stack_trace.reset();
            leave_out_long_payload(letter, long_payload_bytes);
        }));
        page.has_next = std::ssize(page.letters) == rows_of(query);
        if (page.has_next) page.letters.pop_back();
        TRY(run_query(*handle, letter_total_sql(query), query, kMaxCounted + 1,
                      [&](const SqliteStatement& row) { set_total(page, query, row.get<std::int64_t>()); }));
        return page;
    }

    Result<std::optional<LetterDetail>> find(std::string_view id) override {
        TRY_ASSIGN(auto handle, file_.reader());
        TRY_ASSIGN(auto stored, stored_letter(*handle, canonical_uuid(id)));
        if (!stored) return std::nullopt;
        show_doubt(stored->detail.letter);
        return std::move(stored->detail);
    }

    Result<std::vector<LetterAudit>> audit(std::string_view id, std::int32_t limit) override {
        TRY(check_upkeep_limit(limit));
        TRY_ASSIGN(auto handle, file_.reader());
        return handle->all(letters::sql::letter_audit, &audit_line_at<SqliteStatement>, canonical_uuid(id), limit);
    }

    Result<std::vector<TopicCounts>> topics() override {
        TRY_ASSIGN(auto handle, file_.reader());
        return handle->all(letters::sql::topics, &topic_counts_at<SqliteStatement>);
    }

    Result<std::vector<Destination>> destinations(std::string_view topic, std::int32_t limit) override {
        TRY(check_upkeep_limit(limit));
        TRY_ASSIGN(auto handle, file_.reader());
        return handle->all(letters::sql::destinations, &destination_at<SqliteStatement>, topic, limit);
    }

    Result<std::vector<RetryClaim>> begin_retry(std::span<const std::string> ids,
                                                const RetryRequest& request) override {
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

    Result<std::int64_t> end_retry(std::string_view owner, std::string_view actor,
                                   std::span<const RetryEnd> ends) override {
        TRY(check_retry_request({std::string(owner), std::string(actor)}));
        if (ends.empty()) return 0;
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
            EndCounts counts;
            std::int64_t applied = 0;
            for (const RetryEnd& end : ends) {
                TRY_ASSIGN(const auto letter, owned_letter(handle, owner, end.id));
                if (!letter) continue;
                TRY(end_retry_of(handle, *letter, retry_effect(*letter, end.result), actor, end));
                ++counts[end.result];
                ++applied;
            }
            TRY(add_to_redrive(handle, owner, std::move(counts)));
            return applied;
        });
    }

    Result<std::vector<std::string>> return_to_lane(std::string_view owner, std::string_view actor,
                                                    std::span<const std::string> ids) override {
        using Problems = std::vector<std::string>;
        TRY(check_retry_request({std::string(owner), std::string(actor)}));
        if (ids.empty()) return Problems{};
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Problems> {
            EndCounts counts;
            Problems problems(ids.size(), std::string(kRetryEnded));
            for (std::size_t i = 0; i < ids.size(); ++i) {
                TRY_ASSIGN(const auto letter, owned_letter(handle, owner, ids[i]));
                if (!letter) continue;
                TRY_ASSIGN(problems[i], return_letter(handle, *letter, actor));
                ++counts[problems[i].empty() ? RetryResult::published : RetryResult::failed];
            }
            TRY(add_to_redrive(handle, owner, std::move(counts)));
            return problems;
        });
    }

    Result<std::optional<Redrive>> open_redrive(std::string_view topic, std::string_view owner, std::string_view actor,
                                                Duration lease) override {
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
                    // What the owner before had begun and not ended is free at once (free_letters finds it by that
                    // owner), and found again from the beginning.
                    TRY(handle.run(letters::sql::free_letters, found->owner, topic));
                    TRY(handle.run(letters::sql::restart_redrive, topic));
                }
                TRY(handle.run(letters::sql::own_redrive, topic, owner, until));
            }
            TRY_ASSIGN(auto redrive, redrive_now(handle, topic));
            return redrive;
        });
    }

    Result<std::vector<RetryClaim>> next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                    const RedrivePage& page) override {
        using Claims = std::vector<RetryClaim>;
        TRY(check_retry_request(request));
        TRY(check_upkeep_limit(page.letters));
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Claims> {
            TRY_ASSIGN(auto found, owned_redrive(handle, topic, request.owner));
            std::optional<LetterCursor>& position = found.redrive.position;
            Claims claims;
            // Each turn moves the position: an empty answer means the end, so it must not come from letters that could
            // not be begun.
            for (bool more = true; more && claims.empty();) {
                TRY_ASSIGN(auto letters, redrive_candidates(handle, found, page));
                const std::size_t candidates = letters.size();
                TRY_ASSIGN(claims, begin_candidates(handle, found.started_at, letters, page.bytes, request));
                more = candidates == static_cast<std::size_t>(page.letters) || letters.size() < candidates;
                position = more ? letters.back() : found.redrive.up_to;
            }
            const auto taken_over =
                std::ranges::count_if(claims, [](const RetryClaim& claim) { return claim.letter->letter.in_doubt; });
            TRY(handle.run(letters::sql::move_redrive, topic, letter_time(position->created_at), position->id,
                           taken_over, client::time_ahead(request.lease)));
            return claims;
        });
    }

    Result<std::int64_t> end_of_redrive_page(std::string_view /*topic*/, std::string_view owner, std::string_view actor,
                                             std::span<const RetryEnd> ends) override {
        return end_retry(owner, actor, ends);  // which counts for the redrive that the owner has
    }

    Result<Redrive> close_redrive(std::string_view topic, std::string_view owner) override {
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Redrive> {
            TRY(owned_redrive(handle, topic, owner));
            TRY(handle.run(letters::sql::finish_redrive, topic));
            return redrive_now(handle, topic);
        });
    }

    Result<void> release_redrive(std::string_view topic, std::string_view owner) override {
        return in_transaction(file_, Durability::full,
                              [&](Handle& handle) { return handle.run(letters::sql::give_up_redrive, topic, owner); });
    }

    Result<std::vector<Redrive>> abandoned_redrives() override {
        TRY_ASSIGN(auto handle, file_.reader());
        return handle->all(letters::sql::abandoned_redrives, &redrive_at<SqliteStatement>);
    }

    Result<std::optional<Letter>> mark_dead(std::string_view id, std::string_view actor) override {
        const auto may = [](const StoredLetter& stored) {
            const LetterStatus status = stored.detail.letter.status;
            return (status == LetterStatus::pending || status == LetterStatus::retrying) && !stored.retry_is_live;
        };
        return change_by_hand(file_, id, may, letters::sql::mark_dead, {"dead", actor, {}, "DEAD"});
    }

    Result<std::optional<Letter>> revive(std::string_view id, std::string_view actor) override {
        const auto may = [](const StoredLetter& stored) {
            return stored.detail.letter.status == LetterStatus::dead && !is_order(stored.detail.letter);
        };
        return change_by_hand(file_, id, may, letters::sql::revive, {"revived", actor, {}, "PENDING"});
    }

    Result<Removal> remove(std::string_view id, std::string_view actor) override {
        TRY(check_upkeep_name("actor", actor));
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Removal> {
            TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
            if (!stored) return Removal::unknown;
            if (stored->retry_is_live) return Removal::under_way;
            const Letter& letter = stored->detail.letter;
            TRY(handle.run(letters::sql::remove_letter, letter.id));
            TRY(audit_letter(handle, letter.id, {"deleted", actor, to_string(letter.status)}));
            return Removal::removed;
        });
    }

    Result<std::int64_t> purge(LetterStatus status, Duration age, std::int32_t limit, std::string_view actor) override {
        TRY(check_upkeep_span("age", age));
        TRY(check_upkeep_limit(limit));
        TRY(check_upkeep_name("actor", actor));
        // A power cut that forgets a purge costs nothing: the next one finds the letters again.
        return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
            TRY_ASSIGN(const auto gone, handle.values<std::string>(letters::sql::purge, to_string(status),
                                                                   client::time_ago(age), limit));
            for (const std::string& id : gone) {
                TRY(audit_letter(handle, id, {"purged", actor, to_string(status)}));
            }
            return static_cast<std::int64_t>(gone.size());
        });
    }

    Result<std::int64_t> purge_history(Duration age, std::int32_t limit) override {
        TRY(check_upkeep_span("age", age));
        TRY(check_upkeep_limit(limit));
        return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
            const std::string ago = client::time_ago(age);
            // What the redrives leave of the limit is for the lines, which are many more.
            TRY_ASSIGN(const auto redrives, handle.change(letters::sql::purge_redrives, ago, limit));
            TRY_ASSIGN(const auto lines, handle.change(letters::sql::purge_audit, ago, limit - redrives));
            return redrives + lines;
        });
    }

private:
    File& file_;
};

}  // namespace

std::unique_ptr<DeadLetters> make_dead_letters(File& file) {
    return std::make_unique<SqliteDeadLetters>(file);
}

}  // namespace deliverd::store::sqlite
