#include "store/postgres/connection/statement.h"

#include <endian.h>

#include <bit>

#include "base/assert.h"
#include "store/postgres/connection/cells.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// What the protocol counts to.
constexpr std::size_t kMaxParams = 65'535;

/// `wire` is in network byte order.
template <typename Wire>
std::string bytes_of_wire(Wire wire) {
    return {reinterpret_cast<const char*>(&wire), sizeof wire};
}

}  // namespace

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

std::string Params::encoded(std::int32_t value) {
    return bytes_of_wire(htobe32(static_cast<std::uint32_t>(value)));
}
std::string Params::encoded(std::int64_t value) {
    return bytes_of_wire(htobe64(static_cast<std::uint64_t>(value)));
}
std::string Params::encoded(double value) {
    return encoded(std::bit_cast<std::int64_t>(value));
}

Params& Params::add(std::string bytes) {
    values_.push_back(Value{std::move(bytes), false, 1});
    return *this;
}

// As text, because then the server converts it to whatever type the statement gives the parameter: uuid, jsonb, bytea.
Params& Params::literal(const std::optional<std::string>& value) {
    values_.push_back(Value{value.value_or(""), !value, 0});
    return *this;
}

Params& Params::time(WallTime value) {
    return int64(value.time_since_epoch().count() + kEarliestMicros);
}

std::vector<const char*> Params::pointers() const {
    ASSERT(values_.size() <= kMaxParams);
    // Any address but null, also of an empty value: a null pointer is NULL to libpq.
    return column(values_, [](const Value& value) { return value.null ? nullptr : value.bytes.c_str(); });
}

std::vector<int> Params::lengths() const {
    return column(values_, [](const Value& value) { return static_cast<int>(value.bytes.size()); });
}

std::vector<int> Params::formats() const {
    return column(values_, &Value::format);
}

}  // namespace deliverd::store::postgres
