#include "store/sqlite/letters/letter_query.h"

#include "base/text.h"
#include "store/sql_text.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

// Parameters: 1 topic, 2 status, 3 source, 4 error class, 5 from, 6 until, 7 text in small letters, 8 key, 9 and 10 the
// cursor, 11 rows to answer, 12 offset, 13 both together.

std::string filters(const LetterQuery& query, bool with_position) {
    std::string sql;
    if (query.status) sql += " and m.status = ?2";
    if (query.source) sql += " and m.source = ?3";
    if (query.error_class) sql += " and m.error_class = ?4";
    if (query.from) sql += " and m.created_at >= ?5";
    if (query.until) sql += " and m.created_at < ?6";
    if (query.text) sql += " and (instr(lower(m.error_message), ?7) > 0 or instr(lower(m.payload), ?7) > 0)";
    if (query.key) sql += " and m.record_key = ?8";
    if (with_position && query.after) sql += " and (m.created_at, m.id) < (?9, ?10)";
    return sql;
}

/// The letters by one index, newest first.
std::string branch(const LetterQuery& query, bool with_position, const std::string& index, const std::string& which) {
    return "select m.created_at, m.id from dlq_messages as m indexed by " + index + " where " + which +
           filters(query, with_position) + " order by m.created_at desc, m.id desc limit ?13";
}

std::string keys(const LetterQuery& query, bool with_position) {
    if (query.topic) {
        // Two ranges, since one condition with OR in it would walk over all letters.
        return "select created_at, id from (" +
               branch(query, with_position, "dlq_messages_source_topic", "m.source_topic = ?1") +
               ") union all select created_at, id from (" +
               branch(query, with_position, "dlq_messages_original_topic",
                      "m.original_topic = ?1 and m.source_topic is not ?1") +
               ")";
    }
    const std::string index = query.error_class ? "dlq_messages_error_class"
                              : query.status    ? "dlq_messages_status"
                              : query.source    ? "dlq_messages_source"
                                                : "dlq_messages_newest";
    return branch(query, with_position, index, "true");
}

}  // namespace

std::string letter_page_sql(const LetterQuery& query) {
    return filled(letters::sql::letter_page, {{"keys", keys(query, true)}});
}

bool counted(const LetterQuery& query) {
    return !query.error_class && !query.from && !query.until && !query.text && !query.key;
}

std::string letter_total_sql(const LetterQuery& query) {
    if (!counted(query)) return "select count(*) from (select 1 from (" + keys(query, false) + ") limit ?13)";
    std::string sql = "select coalesce(sum(m.letters), 0) from dlq_counts as m where true";
    if (query.topic) sql += " and (m.topic = ?1 or m.original_topic = ?1)";
    return sql + filters(query, false);
}

LetterValues letter_values(const LetterQuery& query) {
    const auto time = [](std::optional<WallTime> at) { return at ? std::optional(letter_time(*at)) : std::nullopt; };
    const auto text = [](const auto& given) { return given ? std::optional<std::string_view>(*given) : std::nullopt; };
    const auto& after = query.after;
    return {text(query.topic),
            query.status ? std::optional(to_string(*query.status)) : std::nullopt,
            text(query.source),
            text(query.error_class),
            time(query.from),
            time(query.until),
            query.text ? std::optional(ascii_lower(*query.text)) : std::nullopt,
            client::Blob{query.key},
            after ? time(after->created_at) : std::nullopt,
            after ? std::optional<std::string_view>(after->id) : std::nullopt};
}

}  // namespace deliverd::store::sqlite
