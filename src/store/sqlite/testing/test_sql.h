// For tests of other rooms: SQL on a file, as a person runs it.
#pragma once

#include <sqlite3.h>

#include <stdexcept>
#include <string>

namespace deliverd::store::sqlite {

inline void run_sql(const std::string& path, const std::string& sql) {
    sqlite3* file = nullptr;
    const bool done = sqlite3_open(path.c_str(), &file) == SQLITE_OK &&
                      sqlite3_exec(file, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
    const std::string problem = done ? "" : sqlite3_errmsg(file);
    sqlite3_close(file);
    if (!done) throw std::runtime_error(problem);
}

}  // namespace deliverd::store::sqlite
