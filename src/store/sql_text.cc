#include "store/sql_text.h"

#include "base/assert.h"

namespace deliverd::store {

std::string quoted(std::string_view name) {
    return '"' + replaced(std::string(name), "\"", "\"\"") + '"';
}

std::string quoted_table(std::string_view table) {
    const std::size_t dot = table.find('.');
    if (dot == std::string_view::npos) return quoted(table);
    return quoted(table.substr(0, dot)) + "." + quoted(table.substr(dot + 1));
}

std::string filled(std::string_view statement,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
    SqlValues names;
    for (const auto& [name, value] : values) names.set(name, std::string(value));
    return names.fill(statement);
}

std::string SqlValues::fill(std::string_view statement) const {
    std::string out;
    for (;;) {
        const std::size_t open = statement.find('{');
        const std::size_t close = statement.find('}', open);
        if (close == std::string_view::npos) return out.append(statement);
        const std::string_view name = statement.substr(open + 1, close - open - 1);
        out += statement.substr(0, open);
        statement.remove_prefix(close + 1);
        if (name.empty()) {  // '{}', an array
            out += "{}";
            continue;
        }
        const auto value = values_.find(name);
        ASSERT(value != values_.end());
        out += value->second;
    }
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
        text.replace(at, what.size(), with);
    }
    return text;
}

}  // namespace deliverd::store
