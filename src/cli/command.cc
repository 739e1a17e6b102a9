#include "cli/command.h"

#include "base/text.h"
#include "daemon/parts.h"
#include "deliverd/error_codes.h"

namespace deliverd::cli {

int complain(const Context& context, int status, std::string_view message) {
    std::string line = one_line(message);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    context.err << "deliverd: " << line << "\n";
    return status;
}

int complain(const Context& context, const Error& error) {
    return complain(context, error.code == codes::kBadArgument ? kWrongUsage : kFailed, error.message);
}

int with_database(const Call& call, MissingFile missing, const std::function<int(store::Database&, Log&)>& work) {
    const config::Config& config = call.config();
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    if (missing == MissingFile::refuse) {
        if (const auto there = daemon::require_existing(config.database); !there) {
            return complain(call.context, there.error());
        }
    }
    const auto database = daemon::open_ready_database(config.database, *log);
    if (!database) return complain(call.context, database.error());
    return work(**database, *log);
}

}  // namespace deliverd::cli
