// What every command is run with, and how it answers: output on `out`, one line per failure on `err`, and the exit
// status (0 done, 1 something failed, 2 wrong usage or configuration).
#pragma once

#include <fmt/format.h>

#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

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

/// Writes "deliverd: MESSAGE" as one line on the error stream.
void complain(const Context& context, std::string_view message);

/// One run of a command.
struct Call {
    const Context& context;
    const config::LoadedConfig& loaded;  // the defaults, for a command that reads no configuration
    bool json = false;

    [[nodiscard]] const config::Config& config() const { return loaded.config; }

    template <typename... Values>
    void print(fmt::format_string<Values...> text, Values&&... values) const {
        context.out << fmt::format(text, std::forward<Values>(values)...);
    }
    /// A warning or a remark, as complain() writes it.
    template <typename... Values>
    void note(fmt::format_string<Values...> text, Values&&... values) const {
        complain(context, fmt::format(text, std::forward<Values>(values)...));
    }
    int print_line(std::string_view line) const {
        context.out << line << "\n";
        return kDone;
    }
    /// "true" (exit 0) or "false" (exit 1): how a script asks whether something was done.
    int print_truth(bool done) const {
        print_line(done ? "true" : "false");
        return done ? kDone : kFailed;
    }
};

/// The exit status, or why the command failed: run() prints that, and exits with 2 for a `bad_argument`, 1 for others.
using Status = Result<int>;

/// The failure of a command that was used as it should be.
template <typename... Values>
[[nodiscard]] Failure failed(fmt::format_string<Values...> text, Values&&... values) {
    return permanent("failed", fmt::format(text, std::forward<Values>(values)...));
}

/// Whether a command creates the SQLite file of the configuration if it is missing.
enum class MissingFile { create, refuse };

/// Opens the configuration's database with its schema in place, and returns what `work` returns, or why the database
/// could not be opened. `work` may use both arguments until it returns.
Status with_database(const Call& call, MissingFile missing, const std::function<Status(store::Database&, Log&)>& work);

}  // namespace deliverd::cli
