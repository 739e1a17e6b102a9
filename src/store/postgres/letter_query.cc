#include "store/postgres/letter_query.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "store/postgres/dead_letters_sql.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

constexpr std::string_view kKafka = "kafka";

/// Statements are told apart by their names: one for each set of filters.
LetterSelect named(string what, string sql, Params params) {
    string name = "dlq_" + std::move(what) + "_" + std::to_string(std::hash<string>()(sql));
    return {Statement{std::move(name), std::move(sql)}, std::move(params)};
}

/// Which letters, as the parts of a union in which none is twice; each an index that has them in their order.
class Parts {
public:
    explicit Parts(const LetterQuery& query) {
        string rest;
        if (query.topic) {
            const string topic = add(params_.text(*query.topic));
            heads_ = {{from_topic(topic), "m.source_topic"}, {once_of_topic(topic), "m.original_topic"}};
        }
        if (query.source) {
            const string source = "m.source = any (array[" + add(params_.text(*query.source)) + "::text])";
            if (heads_.empty() && *query.source != kKafka) {
                heads_ = {{source + " and m.source <> 'kafka'", "m.source"}};
            } else {
                rest += " and " + source;
            }
        }
        if (query.error_class) {
            const string error_class =
                "m.error_class = any (array[" + add(params_.text(*query.error_class)) + "::text])";
            if (heads_.empty()) {
                heads_ = {{error_class, "m.error_class"}};
            } else {
                rest += " and " + error_class;
            }
        }
        if (heads_.empty()) heads_ = {{"true", ""}};
        if (query.status) rest += " and m.status = '" + string(to_string(*query.status)) + "'";
        if (query.from) rest += " and m.created_at >= " + add(params_.time(*query.from)) + "::timestamptz";
        if (query.until) rest += " and m.created_at < " + add(params_.time(*query.until)) + "::timestamptz";
        if (query.key) rest += " and m.record_key = " + add(params_.text(*query.key)) + "::bytea";
        if (query.text) {
            const string text = "lower(" + add(params_.text(*query.text)) + "::text)";
            rest += " and (strpos(lower(m.error_message), " + text + ") > 0 or strpos(lower(m.payload::text), " + text +
                    ") > 0)";
        }
        for (Head& head : heads_) head.condition += rest;
    }

    /// The text of the parameter that was just added.
    string add(const Params& params) { return "$" + std::to_string(params.count()); }
    Params& params() { return params_; }

    [[nodiscard]] string united() const {
        return united([](const string&) { return string(); });
    }
    /// The newest `limit` of each that `behind` leaves. They are asked for in the order of the whole index, and by an
    /// array of one: where nearly all letters are of one topic the planner would otherwise walk the index of all of
    /// them, to its end where there are none.
    [[nodiscard]] string newest(const string& behind, const string& limit) const {
        return united([&](const string& lead) {
            return behind + " order by " + (lead.empty() ? "" : lead + " desc, ") +
                   "m.created_at desc, m.id desc limit " + limit;
        });
    }

private:
    struct Head {
        string condition;
        string lead;  // the index's first column, before created_at and id
    };

    [[nodiscard]] string united(const std::function<string(const string&)>& and_then) const {
        string sql;
        for (const auto& [condition, lead] : heads_) {
            sql += (sql.empty() ? "" : " union all ") +
                   ("(select m.id, m.created_at from dlq.dlq_messages m where " + condition + and_then(lead) + ")");
        }
        return sql;
    }

    Params params_;
    std::vector<Head> heads_;
};

/// The sum of the lines for topic, source and status, the parameters of which are numbered as in Parts.
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

}  // namespace

LetterSelect select_page(const LetterQuery& query) {
    Parts parts(query);
    Params& params = parts.params();
    string behind;
    if (query.after) {
        const string at = parts.add(params.time(query.after->created_at)) + "::timestamptz";
        behind = " and (m.created_at, m.id) < (" + at + ", " + parts.add(params.literal(query.after->id)) + "::uuid)";
    }
    const string offset = parts.add(params.int64(query.after ? 0 : query.offset)) + "::bigint";
    string limit = parts.add(params.int64(std::int64_t{query.limit} + 1)) + "::bigint";
    // Whoever has found all there are need not look through the rest: few of a status among many others.
    if (query.status && !query.after && is_counted(query)) {
        limit = "greatest(0, least(" + limit + ", (" + counted_sql(query) + ") - " + offset + "))";
    }
    // Each part ends by itself: of a union without limits the planner sorts the whole.
    const string part = parts.newest(behind, limit + " + " + offset);
    string sql = "select " + letter_columns("m") + " from (select p.id, p.created_at from (" + part +
                 ") p order by p.created_at desc, p.id desc limit " + limit + " offset " + offset +
                 ") p cross join lateral (select d.* from dlq.dlq_messages d where d.id = any (array[p.id])) m"
                 " order by p.created_at desc, p.id desc";
    return named("page", std::move(sql), std::move(params));
}

bool is_counted(const LetterQuery& query) {
    return !query.error_class && !query.from && !query.until && !query.text && !query.key;
}

LetterSelect select_total(const LetterQuery& query) {
    Parts parts(query);
    if (is_counted(query)) return named("counted", counted_sql(query), std::move(parts.params()));
    const string limit = parts.add(parts.params().int64(kMaxCounted + 1)) + "::bigint";
    return named("total", "select count(*) from (select 1 from (" + parts.united() + ") p limit " + limit + ") k",
                 std::move(parts.params()));
}

}  // namespace deliverd::store::postgres
