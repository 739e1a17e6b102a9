// What every command is run with, and how it answers: output on `out`, one line per failure on `err`, and the exit
// status (0 done, 1 something failed, 2 wrong usage or configuration).
#pragma once

#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "base/log.h"
#include "config/load.h"
#include "deliverd/result.h"
#include "store/database.h"

namespace deliverd::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

/// Everything a command knows of the world around it.
struct Context {
    std::istream& in;
    std::ostream& out;
    std::ostream& err;
    config::Environment environment;
};

/// One run of a command.
struct Call {
    const Context& context;
    const config::LoadedConfig& loaded;  // the defaults, for a command that reads no configuration
    bool json = false;

    [[nodiscard]] const config::Config& config() const { return loaded.config; }
};

/// Writes "deliverd: MESSAGE" as one line on the error stream; returns `status`.
int complain(const Context& context, int status, std::string_view message);

/// The same for an error value: a bad argument is wrong usage, everything else a failure.
int complain(const Context& context, const Error& error);

/// Whether a command creates the SQLite file of the configuration if it is missing.
enum class MissingFile { create, refuse };

/// Opens the configuration's database with its schema in place, and returns what `work` returns; complains if it cannot
/// be opened. `work` may use both arguments until it returns.
int with_database(const Call& call, MissingFile missing, const std::function<int(store::Database&, Log&)>& work);

}  // namespace deliverd::cli
