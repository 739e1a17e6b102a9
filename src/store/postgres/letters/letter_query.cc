#include "store/postgres/letters/letter_query.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

constexpr std::string_view kKafka = "kafka";

/// One statement for each set of filters.
LetterSelect named(const string& what, string sql, Params params) {
    return {statement_by_text("letters_" + what, std::move(sql)), std::move(params)};
}

/// The two parts of a topic's letters, none of them in both. `topic` is the parameter, `a` the row.
string from_topic(const string& topic, const string& a) {
    return a + ".source_topic = any (array[" + topic + "::text])";
}

string once_of_topic(const string& topic, const string& a) {
    return a + ".original_topic = any (array[" + topic + "::text]) and " + a + ".source_topic is distinct from " + a +
           ".original_topic";
}

/// Which letters, as the parts of a union in which none is twice; each an index that has them in their order. The DEAD
/// ones have a list of their own, with such indexes.
class LetterSources {
public:
    explicit LetterSources(const LetterQuery& query) : listed_(query.status == LetterStatus::dead ? "k" : "m") {
        if (query.topic) {
            const string topic = add(params_.text(*query.topic));
            heads_ = {{from_topic(topic, listed_), listed_ + ".source_topic"},
                      {once_of_topic(topic, listed_), listed_ + ".original_topic"}};
        }
        if (query.source) {
            const string source = "m.source = any (array[" + add(params_.text(*query.source)) + "::text])";
            lead_or_filter("m.source", source, source + " and m.source <> 'kafka'", *query.source != kKafka);
        }
        if (query.error_class) {
            const string error_class =
                "m.error_class = any (array[" + add(params_.text(*query.error_class)) + "::text])";
            lead_or_filter("m.error_class", error_class, error_class, true);
        }
        if (heads_.empty()) heads_ = {{"true", ""}};
        if (query.status && !of_the_dead()) filter("m.status = '" + string(to_string(*query.status)) + "'");
        if (query.from)
            range_ += " and " + listed_ + ".created_at >= " + add(params_.time(*query.from)) + "::timestamptz";
        if (query.until)
            range_ += " and " + listed_ + ".created_at < " + add(params_.time(*query.until)) + "::timestamptz";
        if (query.key) filter("m.record_key = " + add(params_.text(*query.key)) + "::bytea");
        if (query.text) {
            const string text = "lower(" + add(params_.text(*query.text)) + "::text)";
            filter("(strpos(lower(m.error_message), " + text + ") > 0 or strpos(lower(m.payload::text), " + text +
                   ") > 0)");
        }
    }

    /// The text of the parameter that was just added.
    string add(const Params& params) { return "$" + std::to_string(params.count()); }
    Params& params() { return params_; }

    [[nodiscard]] string united() const {
        return united([](const string&) { return string(); });
    }
    /// The newest `limit` of each that are `behind` a position, if one is given. They are asked for in the order of the
    /// whole index, and by an array of one: where nearly all letters are of one topic the planner would otherwise walk
    /// the index of all of them, to its end where there are none.
    [[nodiscard]] string newest(const string& behind, const string& limit) const {
        const string place = listed_ + ".created_at, " + listed_ + ".id";
        const string position = behind.empty() ? "" : " and (" + place + ") < (" + behind + ")";
        return united([&](const string& lead) {
            return position + " order by " + (lead.empty() ? "" : lead + " desc, ") + listed_ + ".created_at desc, " +
                   listed_ + ".id desc limit " + limit;
        });
    }

private:
    struct Head {
        string condition;
        string lead;  // the index's first column, before created_at and id
    };

    [[nodiscard]] bool of_the_dead() const { return listed_ == "k"; }
    void filter(const string& condition) { filters_ += (filters_.empty() ? "" : " and ") + condition; }
    /// The index that is walked, where none is chosen yet and this has one; else a condition for what is found.
    void lead_or_filter(string lead, const string& condition, string of_index, bool has_index) {
        if (heads_.empty() && has_index && !of_the_dead()) {
            heads_ = {{std::move(of_index), std::move(lead)}};
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

    [[nodiscard]] string united(const std::function<string(const string&)>& and_then) const {
        const string rest = range_ + (of_the_dead() || filters_.empty() ? "" : " and " + filters_);
        string sql;
        for (const auto& [condition, lead] : heads_) {
            sql += sql.empty() ? "" : " union all ";
            sql += "(select " + listed_ + ".id, " + listed_ + ".created_at from " + table() + " where " + condition +
                   rest + and_then(lead) + ")";
        }
        return sql;
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
    int next = query.topic ? 2 : 1;
    if (query.source) rest += " and c.source = $" + std::to_string(next++) + "::text";
    if (query.status) rest += " and c.status = '" + string(to_string(*query.status)) + "'";
    const string lines = "select c.letters from dlq.dlq_counts c where ";
    const string which = query.topic ? lines + "c.topic = $1::text" + rest + " union all " + lines +
                                           "c.original_topic = $1::text and c.topic <> $1::text" + rest
                                     : lines + "true" + rest;
    return "select coalesce(sum(k.letters), 0)::bigint from (" + which + ") k";
}

/// Whether the listing has the payload of a page's letter m, in the order of p. The sizes are known without reading
/// what is stored elsewhere.
string payload_is_shown() {
    const string bytes =
        "case when m.payload is null then 0 else"
        " coalesce(octet_length(m.record_value), octet_length(m.payload::text)) end";
    const string is_short = bytes + " <= " + std::to_string(kShortPayloadBytes);
    return "(" + is_short + " or sum(case when " + is_short + " then 0 else " + bytes +
           " end) over (order by p.created_at desc, p.id desc rows unbounded preceding) <= " +
           std::to_string(kMaxLongPayloadBytes) + ")";
}

/// Sizes of pages that stand in the statement itself. Of a size that it does not know the planner expects a tenth of
/// the table, and plans again for each page, which takes as long as the page. Not all sizes: a statement for each would
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
        const string at = sources.add(params.time(query.after->created_at)) + "::timestamptz";
        behind = at + ", " + sources.add(params.literal(query.after->id)) + "::uuid";
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
    const string part = sources.newest(behind, limit + " + " + offset);
    const string page = "select p.id, p.created_at from (" + part + ") p order by p.created_at desc, p.id desc limit " +
                        limit + " offset " + offset;
    string sql = filled(letters::sql::list_letters, {{"shown", payload_is_shown()}, {"page", page}});
    return named("page", std::move(sql), std::move(params));
}

bool is_counted(const LetterQuery& query) {
    return !query.error_class && !query.from && !query.until && !query.text && !query.key;
}

LetterSelect select_total(const LetterQuery& query) {
    LetterSources sources(query);
    if (is_counted(query)) return named("counted", counted_sql(query), std::move(sources.params()));
    const string limit = sources.add(sources.params().int64(kMaxCounted + 1)) + "::bigint";
    return named("total", "select count(*) from (select 1 from (" + sources.united() + ") p limit " + limit + ") k",
                 std::move(sources.params()));
}

}  // namespace deliverd::store::postgres
