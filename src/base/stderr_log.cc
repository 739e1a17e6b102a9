#include "base/stderr_log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/log_line.h"
#include "base/mutex.h"

namespace deliverd {
namespace {

class StderrLog final : public Log {
public:
    StderrLog(LogLevel threshold, bool human, bool colour) : threshold_(threshold), human_(human), colour_(colour) {}

    void write(LogLevel level, std::string_view event, Fields fields) override {
        if (level < threshold_) return;
        const WallTime now = SystemClock().wall_now();
        const std::span<const LogField> span(fields.begin(), fields.size());
        const std::string line =
            human_ ? human_log_line(now, level, event, span, colour_) : json_log_line(now, level, event, span);
        const MutexLock lock(mutex_);
        write_whole(line);
    }

private:
    /// A log that cannot be written must not stop delivery: an error only ends the line.
    static void write_whole(std::string_view line) {
        while (!line.empty()) {
            const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return;
            line.remove_prefix(static_cast<std::size_t>(written));
        }
    }

    const LogLevel threshold_;
    const bool human_;
    const bool colour_;
    Mutex mutex_;  // one line at a time
};

}  // namespace

std::unique_ptr<Log> make_stderr_log(LogLevel threshold, LogFormat format) {
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    const bool human = format == LogFormat::human || (format == LogFormat::automatic && terminal);
    const char* no_colour = std::getenv("NO_COLOR");  // https://no-color.org
    const bool colour = terminal && (no_colour == nullptr || *no_colour == '\0');
    return std::make_unique<StderrLog>(threshold, human, colour);
}

}  // namespace deliverd
