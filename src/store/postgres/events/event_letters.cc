#include "store/postgres/events/event_letters.h"

#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

/// A column of a table of others, whatever its type.
class Cell {
public:
    Cell(const EventShape& shape, const string& column)
        : type_(column.empty() ? "" : shape.column(column).type), name_("o." + quoted(column)) {}

    [[nodiscard]] string json() const {
        if (type_ == "jsonb") return name_;
        return "deliverd.json_or_null(" + (type_ == "bytea" ? name_ : name_ + "::text") + ")";
    }
    [[nodiscard]] string bytes() const { return type_ == "bytea" ? name_ : "convert_to(" + name_ + "::text, 'UTF8')"; }

private:
    string type_;
    string name_;
};

}  // namespace

string event_letters_sql(const EventTable& table, const TablePlace& place, const EventShape& shape) {
    const EventColumns& columns = table.columns;
    const bool own = !columns.dead_at.empty();
    const bool numbers = id_kind(shape, columns) == IdKind::number;
    const string id = "o." + quoted(columns.id);
    const string error = own ? "o." + quoted(columns.last_error) : "f.last_error";
    const string headers =
        columns.metadata.empty() ? "'[]'" : "deliverd.headers_of(" + Cell(shape, columns.metadata).json() + ")";
    const Cell payload(shape, columns.payload);
    // As it was written: a column may keep less of a moment than there is.
    const string died =
        own ? "where o." + quoted(columns.dead_at) + " = now()::" + shape.column(columns.dead_at).spelt
            : "join deliverd.event_failures f on f.lane = $1::text and f.row_id = any (array[i.id::text])"
              " where f.dead_at = now()";
    return filled(letters::sql::event_letters,
                  {{"event_id", columns.event_id.empty() ? "null::text" : "o." + quoted(columns.event_id) + "::text"},
                   {"id", id},
                   {"ids", numbers ? "$3::bigint[]" : "$3::text[]::uuid[]"},
                   {"table", place.quoted_name()},
                   {"error", error},
                   {"aggregate", "o." + quoted(columns.aggregate_id)},
                   {"headers", headers},
                   {"payload", payload.json()},
                   {"value", payload.bytes()},
                   {"died", died}});
}

}  // namespace deliverd::store::postgres
