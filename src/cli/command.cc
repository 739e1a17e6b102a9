#include "cli/command.h"

#include "base/text.h"
#include "base/try.h"
#include "daemon/parts.h"

namespace deliverd::cli {

void complain(const Context& context, std::string_view message) {
    std::string line = one_line(message);
    line.resize(line.find_last_not_of(' ') + 1);
    context.err << "deliverd: " << line << "\n";
}

Status with_database(const Call& call, MissingFile missing, const std::function<Status(store::Database&, Log&)>& work) {
    const config::DatabaseConfig& target = call.config().database;
    const auto log = make_stderr_log(LogLevel::error, call.config().log.format);
    if (missing == MissingFile::refuse) TRY(daemon::require_existing(target));
    TRY_ASSIGN(const auto database, daemon::open_ready_database(target, *log));
    return work(*database, *log);
}

}  // namespace deliverd::cli
