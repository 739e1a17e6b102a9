// Parameters of a statement in PostgreSQL's binary format, arrays included: what a batch is sent as.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace deliverd::store::postgres {

/// Values are copied in. The statement casts each parameter to the type it was added as.
class Params {
public:
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
    struct Value {
        std::string bytes;
        bool null = false;
        int format = 1;
    };
    Params& add(std::string bytes);
    std::vector<Value> values_;
};

}  // namespace deliverd::store::postgres
