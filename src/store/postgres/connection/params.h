// Parameters of a statement in PostgreSQL's binary format, arrays included: what a batch is sent as.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/clock.h"

namespace deliverd::store::postgres {

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

    Params& text(std::string_view value);
    /// Any type, as its text form; nullopt is NULL.
    Params& literal(const std::optional<std::string>& value);
    Params& int32(std::int32_t value);
    Params& int64(std::int64_t value);
    Params& float64(double value);
    Params& int32_array(std::span<const std::int32_t> values);
    Params& int64_array(std::span<const std::int64_t> values);
    Params& float64_array(std::span<const double> values);
    Params& text_array(std::span<const std::optional<std::string>> values);
    Params& text_array(std::span<const std::optional<std::string_view>> values);
    Params& text_array(std::span<const std::string> values);
    Params& text_array(std::span<const std::string_view> values);
    Params& bytes_array(std::span<const std::optional<std::string_view>> values);
    Params& int32_array(std::span<const std::optional<std::int32_t>> values);
    Params& int64_array(std::span<const std::optional<std::int64_t>> values);
    /// A timestamptz.
    Params& time(WallTime value);

    [[nodiscard]] int count() const { return static_cast<int>(values_.size()); }
    /// As libpq wants them; valid until the next change.
    [[nodiscard]] std::vector<const char*> pointers() const;
    [[nodiscard]] std::vector<int> lengths() const;
    [[nodiscard]] std::vector<int> formats() const;

private:
    template <typename Value>
    void add_value(const Value& value) {
        if constexpr (std::is_same_v<Value, std::optional<std::string>>) {
            literal(value);
        } else if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
            text(value);
        } else if constexpr (std::is_same_v<Value, std::int32_t>) {
            int32(value);
        } else if constexpr (std::is_same_v<Value, std::int64_t>) {
            int64(value);
        } else if constexpr (std::is_same_v<Value, double>) {
            float64(value);
        } else if constexpr (std::is_same_v<Value, WallTime>) {
            time(value);
        } else if constexpr (requires { int32_array(value); }) {
            int32_array(value);
        } else if constexpr (requires { int64_array(value); }) {
            int64_array(value);
        } else if constexpr (requires { float64_array(value); }) {
            float64_array(value);
        } else {
            text_array(value);
        }
    }

    struct Value {
        std::string bytes;
        bool null = false;
        int format = 1;
    };
    Params& add(std::string bytes);
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
