// What every command is run with, what it reads, and how it answers: output on `out`, one line per failure on `err`,
// and the exit status (0 done, 1 something failed, 2 wrong usage or configuration).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>
#include <span>
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

/// The exit status, or why the command failed: run() prints that, and exits with 2 for a `bad_argument`, 1 for others.
using Status = Result<int>;

/// Everything a command knows of the world around it.
struct Context {
    std::istream& in;
    std::ostream& out;
    std::ostream& err;
    config::Environment environment;
    bool asks = false;  // `in` is a terminal, so that someone can answer a question
};

/// The program behind main(): runs the command in `words`, which lack the program's name, and returns the exit status.
int run(std::span<const std::string> words, const Context& context);

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
    /// With --json `as_json`, otherwise `as_text`.
    int answer(std::string_view as_json, std::string_view as_text) const {
        return print_line(json ? as_json : as_text);
    }
    /// "true" (exit 0) or "false" (exit 1): how a script asks whether something was done.
    Status print_truth(const Result<bool>& done) const {
        if (!done) return Failure(done.error());
        print_line(*done ? "true" : "false");
        return *done ? kDone : kFailed;
    }
};

/// The failure of a command that was used as it should be.
template <typename... Values>
[[nodiscard]] Failure failed(fmt::format_string<Values...> text, Values&&... values) {
    return permanent("failed", fmt::format(text, std::forward<Values>(values)...));
}

/// The failure of a command that was used wrongly.
template <typename... Values>
[[nodiscard]] Failure misused(fmt::format_string<Values...> text, Values&&... values) {
    return bad_argument(fmt::format(text, std::forward<Values>(values)...));
}

/// Whether a command creates the SQLite file of the configuration if it is missing.
enum class MissingFile { create, refuse };

/// Opens the configuration's database with its schema in place, and returns what `work` returns, or why the database
/// could not be opened. `work` may use both arguments until it returns.
Status with_database(const Call& call, MissingFile missing, const std::function<Status(store::Database&, Log&)>& work);

/// Before something is deleted: asks the user at the terminal. Does not ask if `yes`, or without a terminal. Failure:
/// the answer is not "y" or "yes".
[[nodiscard]] Result<void> confirm(const Call& call, bool yes, std::string_view question);

/// How much is read from a file or from standard input.
struct InputLimit {
    std::int64_t bytes = std::int64_t{16} << 20;
    std::string_view setting{};  // that has it, for the message; empty: none
};

/// The content of file `path`, or of standard input if it is "-". Failure: `bad_argument`, naming `flag` and `path`.
/// `flag` is put in front as it is: "--file " or "--payload @".
[[nodiscard]] Result<std::string> read_input(const Context& context, std::string_view flag, const std::string& path,
                                             const InputLimit& limit);

/// `value` itself, or the content of FILE for "@FILE", or standard input for "-" (also "@-"); "@@text" is "@text".
/// Failure: as read_input(); `flag` is "--payload".
[[nodiscard]] Result<std::string> text_or_input(const Context& context, std::string_view flag, const std::string& value,
                                                const InputLimit& limit = {});

/// A list that is printed row by row as it is read: a table, or with --json an array with one object on each line.
class Listing {
public:
    /// `format` is fmt's, for one row: it takes the names of the columns, and the cells. The caller makes cells that
    /// strangers wrote one_line(). `call` must outlive this object.
    template <typename... Names>
    Listing(const Call& call, std::string format, const Names&... names)
        : call_(call), format_(std::move(format) + "\n"), header_(fmt::format(fmt::runtime(format_), names...)) {}

    /// One row: its cells, or with --json what `json` makes of it.
    template <typename Json, typename... Cells>
    void row(Json json, const Cells&... cells) {
        const bool first = count_++ == 0;
        if (call_.json) return call_.print("{}{}", first ? "[" : ",\n ", json());
        if (first) call_.print("{}", header_);
        call_.print("{}", fmt::format(fmt::runtime(format_), cells...));
    }
    /// Ends the list; an empty table is the line `nothing`.
    int end(std::string_view nothing) {
        if (call_.json) return call_.print_line(count_ == 0 ? "[]" : "]");
        return count_ == 0 ? call_.print_line(nothing) : kDone;
    }
    [[nodiscard]] std::int64_t count() const { return count_; }

private:
    const Call& call_;
    const std::string format_;
    const std::string header_;
    std::int64_t count_ = 0;
};

/// The width of a column: that of its widest cell or of its name.
template <typename Rows, typename Text>
std::size_t widest(const Rows& rows, Text text_of, std::string_view name = {}) {
    std::size_t width = name.size();
    for (const auto& row : rows) width = std::max(width, std::string_view(std::invoke(text_of, row)).size());
    return width;
}

}  // namespace deliverd::cli
