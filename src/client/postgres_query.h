// Statements of the protocols on PostgreSQL: typed values in, typed rows out.
#pragma once

#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/try.h"
#include "client/postgres_call.h"
#include "client/protocol_rows.h"
#include "client/sql_values.h"

namespace deliverd::client {

/// A row of a result in text format; the result outlives it.
class PostgresRow {
public:
    PostgresRow(const PGresult* result, int row) : result_(result), row_(row) {}

    /// Cells from the first column on, each as its target's type. NULL is none, 0 or "".
    template <typename... Targets>
    void read(Targets&... targets) const {
        int column = 0;
        ((targets = get<Targets>(column++)), ...);
    }
    template <typename T>
    [[nodiscard]] T get(int column = 0) const {
        const std::string_view text(PQgetvalue(result_, row_, column),
                                    static_cast<std::size_t>(PQgetlength(result_, row_, column)));
        if constexpr (std::is_same_v<T, bool>) {
            return text == "t";
        } else if constexpr (std::is_arithmetic_v<T>) {
            T number = 0;
            std::from_chars(text.data(), text.data() + text.size(), number);
            return number;
        } else if constexpr (std::is_constructible_v<T, std::nullopt_t>) {
            return PQgetisnull(result_, row_, column) != 0 ? T() : T(get<typename T::value_type>(column));
        } else {
            return T(text);
        }
    }

private:
    const PGresult* result_;
    int row_;
};

/// Values are numbers, text, or optionals of these (NULL when there is none).
class PostgresQuery {
public:
    explicit PostgresQuery(std::unique_ptr<PostgresCall> call) : call_(std::move(call)) {}

    /// The first cell of the only row: what a function that changes something answers.
    template <typename T, typename... Values>
    Result<T> value(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(const auto result, run(Effect::write, sql, values...));
        return PostgresRow(result.get(), 0).get<T>();
    }
    template <typename T, typename... Values>
    Result<std::vector<T>> rows(Effect effect, std::string_view sql, const Values&... values) {
        TRY_ASSIGN(const auto result, run(effect, sql, values...));
        std::vector<T> found;
        const int count = PQntuples(result.get());
        found.reserve(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) found.push_back(row_as<T>(PostgresRow(result.get(), i)));
        return found;
    }
    /// Of a statement that only reads.
    template <typename T, typename... Values>
    Result<std::optional<T>> row(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(auto found, rows<T>(Effect::read, sql, values...));
        return found.empty() ? std::nullopt : std::optional<T>(std::move(found.front()));
    }

private:
    template <typename T>
    static std::optional<std::string> text(const T& value) {
        if constexpr (std::is_floating_point_v<T>) {
            return decimal(value);
        } else if constexpr (std::is_integral_v<T>) {
            return std::to_string(value);
        } else {
            return std::string(value);
        }
    }
    template <typename T>
    static std::optional<std::string> text(const std::optional<T>& value) {
        return value ? text(*value) : std::nullopt;
    }
    template <typename... Values>
    Result<PgResult> run(Effect effect, std::string_view sql, const Values&... values) {
        const std::array<std::optional<std::string>, sizeof...(Values)> texts = {text(values)...};
        return call_->run(std::string(sql).c_str(), texts, effect);
    }

    std::unique_ptr<PostgresCall> call_;
};

}  // namespace deliverd::client
