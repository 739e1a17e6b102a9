#include "store/letter_rules.h"
#include "store/sql_text.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

std::string filters(const LetterQuery& query) {
    std::string sql;
    if (query.status) sql += " and m.status = ?2";
    if (query.source) sql += " and m.source = ?3";
    if (query.error_class) sql += " and m.error_class = ?4";
    if (query.from) sql += " and m.created_at >= ?5";
    if (query.until) sql += " and m.created_at < ?6";
    if (query.text) sql += " and (instr(lower(m.error_message), ?7) > 0 or instr(lower(m.payload), ?7) > 0)";
    if (query.key) sql += " and m.record_key = ?8";
    if (query.after) sql += " and (m.created_at, m.id) < (?9, ?10)";
    return sql;
}

/// The letters by one index, newest first. The index is named, so that the plan does not depend on statistics: another
/// one would not have the letters in their order.
std::string branch(const LetterQuery& query, const std::string& index, const std::string& which) {
    return "select m.created_at, m.id from dlq_messages as m indexed by " + index + " where " + which + filters(query) +
           " order by m.created_at desc, m.id desc limit ?13";
}

std::string keys(const LetterQuery& query) {
    if (query.topic) {
        // Two ranges, since one condition with OR in it would walk over all letters.
        return "select created_at, id from (" + branch(query, "dlq_messages_source_topic", "m.source_topic = ?1") +
               ") union all select created_at, id from (" +
               branch(query, "dlq_messages_original_topic", "m.original_topic = ?1 and m.source_topic is not ?1") + ")";
    }
    // One of the filters has its index; the others are conditions on what that finds.
    const std::string index = query.error_class ? "dlq_messages_error_class"
                              : query.status    ? "dlq_messages_status"
                              : query.source    ? "dlq_messages_source"
                                                : "dlq_messages_newest";
    return branch(query, index, "true");
}

}  // namespace

std::string letter_page_sql(const LetterQuery& query) {
    return filled(letters::sql::letter_page, {{"keys", keys(query)}});
}

std::string letter_total_sql(LetterQuery query) {
    query.after.reset();
    if (!is_counted(query)) return "select count(*) from (select 1 from (" + keys(query) + ") limit ?13)";
    std::string sql = "select coalesce(sum(m.letters), 0) from dlq_counts as m where true";
    if (query.topic) sql += " and (m.topic = ?1 or m.original_topic = ?1)";
    return sql + filters(query);
}

}  // namespace deliverd::store::sqlite
