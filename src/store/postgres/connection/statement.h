// Statements as connections prepare them.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace deliverd::store::postgres {

/// A statement that every connection prepares when it first meets it. Names are unique in the program.
struct Statement {
    Statement() = default;
    Statement(std::string its_name, std::string_view text) : name(std::move(its_name)), sql(text) {}

    std::string name;
    std::string sql;
};

/// Named after its text, so that texts made at run time have one name each: `what`_<hash>.
[[nodiscard]] Statement statement_by_text(std::string_view what, const std::string& sql);

/// The statements of rooms (`sql::all` of their statements.h) with {schema} filled in. Thread-safe.
class Statements {
public:
    using Texts = std::span<const std::pair<std::string_view, std::string_view>>;

    /// `schema` is that of the outbox tables.
    Statements(std::string_view schema, std::initializer_list<Texts> rooms);

    /// `text` is one of the rooms' (asserted), without placeholders other than {schema}.
    const Statement& operator[](std::string_view text) const;

private:
    std::unordered_map<std::string_view, Statement> by_text_;
};

}  // namespace deliverd::store::postgres
