// Statements as connections prepare them, and their parameters in PostgreSQL's binary format, arrays included: what a
// batch is sent as.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"

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

/// Values are copied in. The statement casts each parameter to the type it was added as.
class Params {
public:
    Params() = default;
    /// A parameter for each value, as its type says: text, numbers, times, and arrays of them. An optional text is a
    /// literal().
    template <typename... Values>
        requires(sizeof...(Values) > 0 && !(std::is_same_v<Values, Params> || ...))
    explicit Params(const Values&... values) {
        (add_value(values), ...);
    }

    Params& text(std::string_view value) { return add(std::string(value)); }
    /// Any type, as its text form; nullopt is NULL.
    Params& literal(const std::optional<std::string>& value);
    Params& int32(std::int32_t value) { return add(encoded(value)); }
    Params& int64(std::int64_t value) { return add(encoded(value)); }
    Params& float64(double value) { return add(encoded(value)); }
    /// A timestamptz.
    Params& time(WallTime value);

    /// An array: takes a range of such values, or of optionals, where nullopt is NULL.
    template <typename Values>
    Params& array(const Values& values) {
        return array_of<oid_of<ElementOf<Values>>()>(values);
    }
    /// The same of text that is to be bytes.
    template <typename Values>
    Params& bytes_array(const Values& values) {
        return array_of<kBytea>(values);
    }

    [[nodiscard]] int count() const { return static_cast<int>(values_.size()); }
    /// As libpq wants them; valid until the next change.
    [[nodiscard]] std::vector<const char*> pointers() const;
    [[nodiscard]] std::vector<int> lengths() const;
    [[nodiscard]] std::vector<int> formats() const;

private:
    // Type oids from pg_type.dat; they never change.
    enum Oid : std::int32_t { kBytea = 17, kInt8 = 20, kInt4 = 23, kText = 25, kFloat8 = 701 };

    struct Value {
        std::string bytes;
        bool null = false;
        int format = 1;
    };

    /// Of a value, or of an optional one.
    template <typename Element>
    static constexpr Oid oid_of() {
        if constexpr (std::is_same_v<Element, std::int32_t>) {
            return kInt4;
        } else if constexpr (std::is_same_v<Element, std::int64_t>) {
            return kInt8;
        } else if constexpr (std::is_same_v<Element, double>) {
            return kFloat8;
        } else if constexpr (std::is_convertible_v<Element, std::string_view>) {
            return kText;
        } else {
            return oid_of<typename Element::value_type>();
        }
    }
    template <typename Values>
    using ElementOf = std::decay_t<decltype(*std::begin(std::declval<const Values&>()))>;

    template <typename Given>
    void add_value(const Given& value) {
        if constexpr (std::is_same_v<Given, std::optional<std::string>>) {
            literal(value);
        } else if constexpr (std::is_convertible_v<const Given&, std::string_view>) {
            text(value);
        } else if constexpr (std::is_arithmetic_v<Given>) {
            add(encoded(value));
        } else if constexpr (std::is_same_v<Given, WallTime>) {
            time(value);
        } else {
            array(value);
        }
    }
    Params& add(std::string bytes);

    static std::string encoded(std::int32_t value);
    static std::string encoded(std::int64_t value);
    static std::string encoded(double value);

    /// One-dimensional: a header of dimensions, "may have NULLs", element type, length and lower bound; then the
    /// elements.
    template <Oid type, typename Values>
    Params& array_of(const Values& values) {
        std::size_t size = kArrayHeaderBytes;
        for (const auto& value : values) size += element_size(value);
        std::string bytes;
        bytes.reserve(size);
        for (const std::int32_t field : {1, 1, std::int32_t{type}, static_cast<std::int32_t>(std::size(values)), 1}) {
            bytes += encoded(field);
        }
        for (const auto& value : values) append_element(bytes, value);
        return add(std::move(bytes));
    }
    static constexpr std::size_t kArrayHeaderBytes = 20;

    template <typename Element>
    static std::size_t element_size(const Element& value) {
        if constexpr (std::is_arithmetic_v<Element>) {
            return sizeof(std::int32_t) + sizeof value;
        } else if constexpr (std::is_convertible_v<const Element&, std::string_view>) {
            return sizeof(std::int32_t) + value.size();
        } else {
            return value ? element_size(*value) : sizeof(std::int32_t);
        }
    }
    /// Its length and bytes; length -1 is NULL.
    template <typename Element>
    static void append_element(std::string& bytes, const Element& value) {
        if constexpr (std::is_arithmetic_v<Element>) {
            bytes += encoded(static_cast<std::int32_t>(sizeof value));
            bytes += encoded(value);
        } else if constexpr (std::is_convertible_v<const Element&, std::string_view>) {
            bytes += encoded(static_cast<std::int32_t>(value.size()));
            bytes += value;
        } else if (value) {
            append_element(bytes, *value);
        } else {
            bytes += encoded(std::int32_t{-1});
        }
    }

    std::vector<Value> values_;
};

/// One array of a statement: what `get`, a member or a function, gives of each row.
template <typename Rows, typename Get>
[[nodiscard]] auto column(const Rows& rows, Get get) {
    std::vector<std::decay_t<std::invoke_result_t<Get, decltype(*std::begin(rows))>>> out;
    out.reserve(std::size(rows));
    for (const auto& row : rows) out.push_back(std::invoke(get, row));
    return out;
}

}  // namespace deliverd::store::postgres
