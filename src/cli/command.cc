#include "cli/command.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/text.h"
#include "base/try.h"
#include "daemon/parts.h"

namespace deliverd::cli {

void complain(const Context& context, std::string_view message) {
    // A message may quote what a stranger wrote. A program that reads the error stream by lines must get one line.
    std::string line = one_line(message);
    line.resize(line.find_last_not_of(' ') + 1);
    context.err << "deliverd: " << line << "\n";
}

Status with_database(const Call& call, MissingFile missing, const std::function<Status(store::Database&, Log&)>& work) {
    const config::DatabaseConfig& target = call.config().database;
    // Only errors: what a command has to say, it says itself.
    const auto log = make_stderr_log(LogLevel::error, call.config().log.format);
    // SQLite creates what it opens, so a mistyped path would become an empty database that answers "nothing found".
    if (missing == MissingFile::refuse) TRY(daemon::require_existing(target));
    TRY_ASSIGN(const auto database, daemon::open_ready_database(target, *log));
    return work(*database, *log);
}

Result<void> confirm(const Call& call, bool yes, std::string_view question) {
    if (yes || !call.context.asks) return {};
    // On the error stream: the answer of the command may go to a file while the question must be seen.
    call.context.err << one_line(question) << " [y/N] " << std::flush;
    std::string answer;
    std::getline(call.context.in, answer);
    if (equal_ignoring_case(answer, "y") || equal_ignoring_case(answer, "yes")) return {};
    return failed("nothing was changed");
}

Result<std::string> read_input(const Context& context, std::string_view flag, const std::string& path,
                               const InputLimit& limit) {
    const auto unreadable = [&](const std::string& why) {
        const bool is_text = flag.ends_with('@');  // perhaps meant as one
        return bad_argument(
            fmt::format("{}{}: {}{}", flag, path, why,
                        is_text ? fmt::format("; write @@{} for a text that begins with @", path) : ""));
    };
    const auto reason = [] { return std::string(errno == 0 ? "it cannot be read" : std::strerror(errno)); };
    // Streams set errno on this platform, but never clear it.
    std::ifstream file;
    errno = 0;
    if (path != "-") file.open(path, std::ios::binary);
    if (!file) return unreadable(reason());
    std::istream& from = path == "-" ? context.in : file;
    errno = 0;
    // One byte more than allowed, so that a huge input is refused without being held.
    std::string text(static_cast<std::size_t>(limit.bytes) + 1, '\0');
    from.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(from.gcount()));
    if (from.bad()) return unreadable(reason());
    if (static_cast<std::int64_t>(text.size()) <= limit.bytes) return text;
    return unreadable(fmt::format("longer than {} bytes{}", limit.bytes,
                                  limit.setting.empty() ? "" : fmt::format(" ({})", limit.setting)));
}

Result<std::string> text_or_input(const Context& context, std::string_view flag, const std::string& value,
                                  const InputLimit& limit) {
    if (value.starts_with("@@")) return value.substr(1);
    if (value == "-") return read_input(context, fmt::format("{} ", flag), value, limit);
    if (!value.starts_with('@')) return value;
    return read_input(context, fmt::format("{} @", flag), value.substr(1), limit);
}

}  // namespace deliverd::cli
