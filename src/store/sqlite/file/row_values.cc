#include "store/sqlite/file/row_values.h"

#include <algorithm>

namespace deliverd::store::sqlite {
namespace {

void shard_function(sqlite3_context* context, int /*count*/, sqlite3_value** arguments) {
    const unsigned char* text = sqlite3_value_text(arguments[0]);
    const auto size = static_cast<std::size_t>(sqlite3_value_bytes(arguments[0]));
    const std::string_view aggregate =
        text == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(text), size);
    sqlite3_result_int(context, shard_of(aggregate, std::max(1, sqlite3_value_int(arguments[1]))));
}

}  // namespace

/// Written here, because std::hash may differ from one compiler to the next, and every process on the file must agree.
/// FNV-1a of 64 bits; its upper half is mixed in, because the lower bits alone are what a power of two looks at.
std::int32_t shard_of(std::string_view aggregate_id, std::int32_t shards) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char c : aggregate_id) {
        hash ^= static_cast<unsigned char>(c);
        hash *= 1099511628211U;
    }
    return static_cast<std::int32_t>((hash ^ (hash >> 32U)) % static_cast<std::uint64_t>(shards));
}

int add_shard_function(sqlite3* connection) {
    return sqlite3_create_function_v2(connection, "deliverd_shard", 2,
                                      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nullptr, &shard_function,
                                      nullptr, nullptr, nullptr);
}

}  // namespace deliverd::store::sqlite
