#include <string>
#include <utility>
#include <vector>

#include "store/letter_rules.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

/// One statement for each set of filters.
LetterSelect named(const string& what, const string& sql, Params params) {
    return {statement_by_text("letters_" + what, sql), std::move(params)};
}

/// Which letters, as the parts of a union in which none is twice; each an index that has them in their order. The DEAD
/// ones have a list of their own, with such indexes.
class LetterSources {
public:
    explicit LetterSources(const LetterQuery& query) : listed_(query.status == LetterStatus::dead ? "k" : "m") {
        if (query.topic) {
            const string topic = any_of(add(params_.text(*query.topic)));
            const string source_topic = listed_ + ".source_topic";
            const string original_topic = listed_ + ".original_topic";
            heads_ = {{source_topic + topic, source_topic},
                      {original_topic + topic + " and " + source_topic + " is distinct from " + original_topic,
                       original_topic}};
        }
        if (query.source) {
            const string source = "m.source" + any_of(add(params_.text(*query.source)));
            // The index by source leaves out what came from Kafka, which is nearly everything.
            if (*query.source == "kafka") {
                filter(source);
            } else {
                lead_or_filter("m.source", source, " and m.source <> 'kafka'");
            }
        }
        if (query.error_class) {
            lead_or_filter("m.error_class", "m.error_class" + any_of(add(params_.text(*query.error_class))), "");
        }
        if (heads_.empty()) heads_ = {{"true", ""}};
        if (query.status && !of_the_dead()) filter("m.status = '" + string(to_string(*query.status)) + "'");
        const string created = " and " + listed_ + ".created_at ";
        if (query.from) range_ += created + ">= " + add(params_.time(*query.from)) + "::timestamptz";
        if (query.until) range_ += created + "< " + add(params_.time(*query.until)) + "::timestamptz";
        if (query.key) filter("m.record_key = " + add(params_.text(*query.key)) + "::bytea");
        if (query.text) {
            const string text = "lower(" + add(params_.text(*query.text)) + "::text)";
            filter("(strpos(lower(m.error_message), " + text + ") > 0 or strpos(lower(m.payload::text), " + text +
                   ") > 0)");
        }
    }

    /// The text of the parameter that was just added.
    static string add(const Params& params) { return "$" + std::to_string(params.count()); }
    Params& params() { return params_; }

    /// All of them, or the newest `limit` of each part that are `behind` a position, if one is given.
    [[nodiscard]] string united(const string& behind = "", const string& limit = "") const {
        const string place = listed_ + ".created_at, " + listed_ + ".id";
        const string rest = range_ + (of_the_dead() || filters_.empty() ? "" : " and " + filters_) +
                            (behind.empty() ? "" : " and (" + place + ") < (" + behind + ")");
        string sql;
        for (const auto& [condition, lead] : heads_) {
            sql += sql.empty() ? "(select " : " union all (select ";
            sql += listed_ + ".id, " + listed_ + ".created_at from " + table() + " where " + condition + rest;
            // In the order of the whole index, its first column too: otherwise the planner, where nearly all letters
            // are of one topic, walks the index of all of them, to its end where there are none.
            if (!limit.empty()) {
                sql += " order by " + (lead.empty() ? "" : lead + " desc, ") + listed_ + ".created_at desc, " +
                       listed_ + ".id desc limit " + limit;
            }
            sql += ")";
        }
        return sql;
    }

private:
    struct Head {
        string condition;
        string lead;  // the index's first column, before created_at and id
    };

    /// An array of one. After a plain equality the planner knows the column as constant, and any index by time gives
    /// the order that united() asks for.
    static string any_of(const string& parameter) { return " = any (array[" + parameter + "::text])"; }
    [[nodiscard]] bool of_the_dead() const { return listed_ == "k"; }
    void filter(const string& condition) { filters_ += (filters_.empty() ? "" : " and ") + condition; }
    /// The index that is walked, where none is chosen yet and the list has one; otherwise a condition for what is
    /// found. `of_index` is the condition of a partial index.
    void lead_or_filter(string lead, const string& condition, const string& of_index) {
        if (heads_.empty() && !of_the_dead()) {
            heads_ = {{condition + of_index, std::move(lead)}};
        } else {
            filter(condition);
        }
    }

    /// The letter itself is looked at only where there is a condition that the list of the dead does not know.
    [[nodiscard]] string table() const {
        if (!of_the_dead()) return "dlq.dlq_messages m";
        if (filters_.empty()) return "dlq.dlq_dead k";
        return "dlq.dlq_dead k cross join lateral (select 1 from dlq.dlq_messages m where m.id = any (array[k.id]) "
               "and " +
               filters_ + ") f";
    }

    const string listed_;  // the row in whose order they come
    Params params_;
    std::vector<Head> heads_;
    string range_;    // of the listed row
    string filters_;  // of m
};

/// The sum of the lines for topic, source and status, the parameters of which are numbered as in LetterSources.
string counted_sql(const LetterQuery& query) {
    string rest;
    if (query.source) rest += string(" and c.source = ") + (query.topic ? "$2" : "$1") + "::text";
    if (query.status) rest += " and c.status = '" + string(to_string(*query.status)) + "'";
    return filled(query.topic ? letters::sql::count_topic : letters::sql::count_all, {{"rest", rest}});
}

/// Page sizes that are literals in the statement. For a size that the planner does not know, it expects a tenth of
/// the table and plans again for each page, which takes as long as the page. Not all sizes: a statement for each would
/// fill the sessions.
bool is_usual(std::int32_t limit) {
    return limit == 20 || limit == 100;
}

}  // namespace

LetterSelect select_page(const LetterQuery& query) {
    LetterSources sources(query);
    Params& params = sources.params();
    string behind;
    if (query.after) {
        behind = sources.add(params.time(query.after->created_at)) + "::timestamptz, ";
        behind += sources.add(params.literal(query.after->id)) + "::uuid";
    }
    const bool first = query.after || query.offset == 0;
    const string offset = first ? "0" : sources.add(params.int64(query.offset)) + "::bigint";
    const std::int64_t rows = std::int64_t{query.limit} + 1;
    string limit = is_usual(query.limit) ? std::to_string(rows) : sources.add(params.int64(rows)) + "::bigint";
    // A statement that has found all there are must not walk the rest: few letters of a status among many others.
    if (query.status && !query.after && is_counted(query)) {
        limit = "greatest(0, least(" + limit + ", (" + counted_sql(query) + ") - " + offset + "))";
    }
    // Each part ends by itself: of a union without limits the planner sorts the whole.
    const string page = "select p.id, p.created_at from (" + sources.united(behind, limit + " + " + offset) +
                        ") p order by p.created_at desc, p.id desc limit " + limit + " offset " + offset;
    return named("page",
                 filled(letters::sql::list_letters, {{"short_bytes", std::to_string(kShortPayloadBytes)},
                                                     {"long_bytes", std::to_string(kMaxLongPayloadBytes)},
                                                     {"page", page}}),
                 std::move(params));
}

LetterSelect select_total(const LetterQuery& query) {
    LetterSources sources(query);
    if (is_counted(query)) return named("counted", counted_sql(query), std::move(sources.params()));
    const string limit = sources.add(sources.params().int64(kMaxCounted + 1)) + "::bigint";
    return named("total", "select count(*) from (select 1 from (" + sources.united() + ") p limit " + limit + ") k",
                 std::move(sources.params()));
}

}  // namespace deliverd::store::postgres
