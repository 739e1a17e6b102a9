#include "store/postgres/connection/params.h"

#include <endian.h>

#include <bit>
#include <utility>

#include "base/assert.h"
#include "store/postgres/connection/cells.h"

namespace deliverd::store::postgres {
namespace {

// Type oids from pg_type.dat; they never change.
constexpr std::int32_t kByteaOid = 17;
constexpr std::int32_t kInt8ElementOid = 20;
constexpr std::int32_t kInt4Oid = 23;
constexpr std::int32_t kTextOid = 25;
constexpr std::int32_t kFloat8Oid = 701;

/// What the protocol counts to.
constexpr std::size_t kMaxParams = 65'535;

template <typename Number>
void put(std::string& out, Number value) {
    if constexpr (sizeof(Number) == sizeof(std::uint32_t)) {
        const std::uint32_t wire = htobe32(std::bit_cast<std::uint32_t>(value));
        out.append(reinterpret_cast<const char*>(&wire), sizeof wire);
    } else {
        const std::uint64_t wire = htobe64(std::bit_cast<std::uint64_t>(value));
        out.append(reinterpret_cast<const char*>(&wire), sizeof wire);
    }
}

/// A length and the bytes; length -1 is NULL.
template <typename Element>
void put_element(std::string& out, const Element& value) {
    if constexpr (std::is_arithmetic_v<Element>) {
        put(out, static_cast<std::int32_t>(sizeof value));
        put(out, value);
    } else if constexpr (std::is_convertible_v<const Element&, std::string_view>) {
        put(out, static_cast<std::int32_t>(value.size()));
        out += value;
    } else if (value) {
        put_element(out, *value);
    } else {
        put(out, std::int32_t{-1});
    }
}

template <typename Element>
std::size_t size_of(const Element& value) {
    if constexpr (std::is_arithmetic_v<Element>) {
        return sizeof value;
    } else if constexpr (std::is_convertible_v<const Element&, std::string_view>) {
        return value.size();
    } else {
        return value ? size_of(*value) : 0;
    }
}

/// One-dimensional: a header of dimensions, "may have NULLs", element type, length and lower bound; then the elements.
template <typename Element>
std::string array(std::int32_t element_oid, std::span<const Element> values) {
    std::size_t size = 20 + values.size() * 4;
    for (const Element& value : values) size += size_of(value);
    std::string bytes;
    bytes.reserve(size);
    for (const std::int32_t field : {1, 1, element_oid, static_cast<std::int32_t>(values.size()), 1}) put(bytes, field);
    for (const Element& value : values) put_element(bytes, value);
    return bytes;
}

template <typename Number>
std::string binary(Number value) {
    std::string bytes;
    put(bytes, value);
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
    return add(binary(value));
}
Params& Params::int64(std::int64_t value) {
    return add(binary(value));
}
Params& Params::float64(double value) {
    return add(binary(value));
}
Params& Params::int32_array(std::span<const std::int32_t> values) {
    return add(array(kInt4Oid, values));
}
Params& Params::int32_array(std::span<const std::optional<std::int32_t>> values) {
    return add(array(kInt4Oid, values));
}
Params& Params::int64_array(std::span<const std::int64_t> values) {
    return add(array(kInt8ElementOid, values));
}
Params& Params::int64_array(std::span<const std::optional<std::int64_t>> values) {
    return add(array(kInt8ElementOid, values));
}
Params& Params::float64_array(std::span<const double> values) {
    return add(array(kFloat8Oid, values));
}
Params& Params::text_array(std::span<const std::optional<std::string>> values) {
    return add(array(kTextOid, values));
}
Params& Params::text_array(std::span<const std::optional<std::string_view>> values) {
    return add(array(kTextOid, values));
}
Params& Params::text_array(std::span<const std::string> values) {
    return add(array(kTextOid, values));
}
Params& Params::text_array(std::span<const std::string_view> values) {
    return add(array(kTextOid, values));
}
Params& Params::bytes_array(std::span<const std::optional<std::string_view>> values) {
    return add(array(kByteaOid, values));
}
Params& Params::time(WallTime value) {
    return int64(value.time_since_epoch().count() + kEarliestMicros);
}

std::vector<const char*> Params::pointers() const {
    ASSERT(values_.size() <= kMaxParams);
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
