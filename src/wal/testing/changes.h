// For tests: changes of the stream as pgoutput writes them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wal/lsn.h"
#include "wal/testing/stream_writer.h"

namespace deliverd::wal {

inline std::string begin_change(Lsn commit_lsn, std::uint32_t transaction, std::int64_t micros_since_2000 = 0) {
    return StreamWriter('B').integer<Lsn>(commit_lsn).integer<std::int64_t>(micros_since_2000).integer(transaction);
}

inline std::string commit_change(Lsn commit_lsn, Lsn end_lsn) {
    return StreamWriter('C').integer<char>(0).integer<Lsn>(commit_lsn).integer<Lsn>(end_lsn).integer<std::int64_t>(0);
}

/// `columns`: names and type oids.
inline std::string relation_change(std::uint32_t oid, std::string_view schema, std::string_view table,
                                   const std::vector<std::pair<std::string, std::uint32_t>>& columns) {
    StreamWriter writer('R');
    writer.integer(oid).text(schema).text(table).integer<char>('d').integer(static_cast<std::uint16_t>(columns.size()));
    for (const auto& [name, type] : columns) writer.integer<char>(0).text(name).integer(type).integer<std::int32_t>(-1);
    return writer;
}

inline std::string insert_change(std::uint32_t oid, const std::vector<std::optional<std::string>>& cells) {
    StreamWriter writer('I');
    writer.integer(oid).integer<char>('N').integer(static_cast<std::uint16_t>(cells.size()));
    for (const auto& cell : cells) {
        if (cell) {
            writer.integer<char>('t').counted(*cell);
        } else {
            writer.integer<char>('n');
        }
    }
    return writer;
}

inline std::string message_change(bool transactional, Lsn lsn, std::string_view prefix, std::string_view content) {
    return StreamWriter('M').integer<char>(transactional).integer<Lsn>(lsn).text(prefix).counted(content);
}

}  // namespace deliverd::wal
