#include "store/sqlite/letters/letter_query.h"

#include "store/sqlite/letters/letter_rows.h"

namespace deliverd::store::sqlite {
namespace {

/// Who began a retry and is gone left a doubt that is not recorded yet.
std::string shown_columns() {
    constexpr std::string_view kRecorded = "m.in_doubt";
    std::string columns(kLetterColumns);
    return columns.replace(columns.find(kRecorded), kRecorded.size(),
                           "(m.in_doubt or (m.retry_owner is not null and"
                           " m.retry_expires_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))");
}

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

/// Small letters as SQLite's lower() makes them.
std::string lower_ascii(std::string text) {
    for (char& c : text) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

}  // namespace

std::string letter_page_sql(const LetterQuery& query) {
    return "select " + shown_columns() + " from (select created_at, id from (" + keys(query, true) +
           ") order by created_at desc, id desc limit ?11 offset ?12) as k cross join dlq_messages as m on m.id = k.id"
           " order by k.created_at desc, k.id desc";
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

LetterBinding::LetterBinding(const LetterQuery& query) {
    if (query.from) from = letter_time(*query.from);
    if (query.until) until = letter_time(*query.until);
    if (query.text) text = lower_ascii(*query.text);
    if (query.after) after = letter_time(query.after->created_at);
}

void LetterBinding::bind(SqliteStatement& statement, const LetterQuery& query) const {
    if (query.topic) statement.bind(1, std::string_view(*query.topic));
    if (query.status) statement.bind(2, to_string(*query.status));
    if (query.source) statement.bind(3, std::string_view(*query.source));
    if (query.error_class) statement.bind(4, std::string_view(*query.error_class));
    if (query.from) statement.bind(5, std::string_view(from));
    if (query.until) statement.bind(6, std::string_view(until));
    if (query.text) statement.bind(7, std::string_view(text));
    if (query.key) statement.bind_blob(8, query.key);
    if (query.after) statement.bind(9, std::string_view(after)).bind(10, std::string_view(query.after->id));
}

}  // namespace deliverd::store::sqlite
