#include "store/sql_text.h"

namespace deliverd::store {

std::string quoted(std::string_view name) {
    std::string out = "\"";
    for (const char c : name) {
        if (c == '"') out.push_back('"');
        out.push_back(c);
    }
    out.push_back('"');
    return out;
}

std::string quoted_table(std::string_view table) {
    const std::size_t dot = table.find('.');
    if (dot == std::string_view::npos) return quoted(table);
    return quoted(table.substr(0, dot)) + "." + quoted(table.substr(dot + 1));
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
        text.replace(at, what.size(), with);
    }
    return text;
}

}  // namespace deliverd::store
