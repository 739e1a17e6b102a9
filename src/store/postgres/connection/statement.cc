#include "store/postgres/connection/statement.h"

#include <functional>

#include "base/assert.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {

// A connection prepares each name once: two texts under one name would run the first one.
Statement statement_by_text(std::string_view what, const std::string& sql) {
    return {std::string(what) + "_" + std::to_string(std::hash<std::string>()(sql)), sql};
}

Statements::Statements(std::string_view schema, std::initializer_list<Texts> rooms) {
    for (const Texts& room : rooms) {
        for (const auto& [name, text] : room) {
            by_text_.try_emplace(text, std::string(name), replaced(std::string(text), "{schema}", quoted(schema)));
        }
    }
}

const Statement& Statements::operator[](std::string_view text) const {
    const auto found = by_text_.find(text);
    ASSERT(found != by_text_.end());
    return found->second;
}

}  // namespace deliverd::store::postgres
