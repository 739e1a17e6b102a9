#include "store/postgres/connection/params.h"

#include <endian.h>

#include <bit>
#include <utility>

#include "store/postgres/connection/cells.h"

namespace deliverd::store::postgres {
namespace {

// Type oids from pg_type.dat; they never change.
constexpr std::int32_t kByteaOid = 17;
constexpr std::int32_t kInt8ElementOid = 20;
constexpr std::int32_t kInt4Oid = 23;
constexpr std::int32_t kTextOid = 25;
constexpr std::int32_t kFloat8Oid = 701;

void put32(std::string& out, std::int32_t value) {
    const std::uint32_t wire = htobe32(static_cast<std::uint32_t>(value));
    out.append(reinterpret_cast<const char*>(&wire), sizeof wire);
}

void put64(std::string& out, std::uint64_t value) {
    const std::uint64_t wire = htobe64(value);
    out.append(reinterpret_cast<const char*>(&wire), sizeof wire);
}

/// A one-dimensional array's header: dimensions, has NULLs, element type, length, lower bound.
void put_array_header(std::string& out, std::int32_t element_oid, std::size_t count, bool nulls) {
    put32(out, 1);
    put32(out, nulls ? 1 : 0);
    put32(out, element_oid);
    put32(out, static_cast<std::int32_t>(count));
    put32(out, 1);
}

/// Text or bytes, which look alike.
template <typename Text>
std::string string_array(std::int32_t element_oid, std::span<const std::optional<Text>> values) {
    std::size_t size = 20 + values.size() * 4;
    for (const auto& value : values) size += value ? value->size() : 0;
    std::string bytes;
    bytes.reserve(size);
    put_array_header(bytes, element_oid, values.size(), true);
    for (const auto& value : values) {
        put32(bytes, value ? static_cast<std::int32_t>(value->size()) : -1);
        if (value) bytes += *value;
    }
    return bytes;
}

}  // namespace

Params& Params::add(std::string bytes) {
    values_.push_back(Value{std::move(bytes), false, 1});
    return *this;
}

Params& Params::text(std::string_view value) {
    return add(std::string(value));
}

Params& Params::literal(const std::optional<std::string>& value) {
    values_.push_back(Value{value.value_or(""), !value, 0});
    return *this;
}

Params& Params::int32(std::int32_t value) {
    std::string bytes;
    put32(bytes, value);
    return add(std::move(bytes));
}

Params& Params::int64(std::int64_t value) {
    std::string bytes;
    put64(bytes, static_cast<std::uint64_t>(value));
    return add(std::move(bytes));
}

Params& Params::float64(double value) {
    std::string bytes;
    put64(bytes, std::bit_cast<std::uint64_t>(value));
    return add(std::move(bytes));
}

Params& Params::int32_array(std::span<const std::int32_t> values) {
    std::string bytes;
    bytes.reserve(20 + values.size() * 8);
    put_array_header(bytes, kInt4Oid, values.size(), false);
    for (const std::int32_t value : values) {
        put32(bytes, 4);
        put32(bytes, value);
    }
    return add(std::move(bytes));
}

Params& Params::int64_array(std::span<const std::int64_t> values) {
    std::string bytes;
    bytes.reserve(20 + values.size() * 12);
    put_array_header(bytes, kInt8ElementOid, values.size(), false);
    for (const std::int64_t value : values) {
        put32(bytes, 8);
        put64(bytes, static_cast<std::uint64_t>(value));
    }
    return add(std::move(bytes));
}

Params& Params::float64_array(std::span<const double> values) {
    std::string bytes;
    bytes.reserve(20 + values.size() * 12);
    put_array_header(bytes, kFloat8Oid, values.size(), false);
    for (const double value : values) {
        put32(bytes, 8);
        put64(bytes, std::bit_cast<std::uint64_t>(value));
    }
    return add(std::move(bytes));
}

Params& Params::int32_array(std::span<const std::optional<std::int32_t>> values) {
    std::string bytes;
    bytes.reserve(20 + values.size() * 8);
    put_array_header(bytes, kInt4Oid, values.size(), true);
    for (const auto& value : values) {
        put32(bytes, value ? 4 : -1);
        if (value) put32(bytes, *value);
    }
    return add(std::move(bytes));
}

Params& Params::int64_array(std::span<const std::optional<std::int64_t>> values) {
    std::string bytes;
    bytes.reserve(20 + values.size() * 12);
    put_array_header(bytes, kInt8ElementOid, values.size(), true);
    for (const auto& value : values) {
        put32(bytes, value ? 8 : -1);
        if (value) put64(bytes, static_cast<std::uint64_t>(*value));
    }
    return add(std::move(bytes));
}

Params& Params::text_array(std::span<const std::optional<std::string>> values) {
    return add(string_array(kTextOid, values));
}

Params& Params::text_array(std::span<const std::optional<std::string_view>> values) {
    return add(string_array(kTextOid, values));
}

Params& Params::bytes_array(std::span<const std::optional<std::string_view>> values) {
    return add(string_array(kByteaOid, values));
}

Params& Params::time(WallTime value) {
    return int64(value.time_since_epoch().count() + kEarliestMicros);
}

std::vector<const char*> Params::pointers() const {
    std::vector<const char*> out;
    for (const Value& value : values_) out.push_back(value.null ? nullptr : value.bytes.c_str());
    return out;
}

std::vector<int> Params::lengths() const {
    std::vector<int> out;
    for (const Value& value : values_) out.push_back(static_cast<int>(value.bytes.size()));
    return out;
}

std::vector<int> Params::formats() const {
    std::vector<int> out;
    for (const Value& value : values_) out.push_back(value.format);
    return out;
}

}  // namespace deliverd::store::postgres
