#include "base/stderr_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/canonical_json.h"
#include "base/json_object.h"
#include "base/json_text.h"
#include "base/mutex.h"
#include "base/text.h"

namespace deliverd {
namespace {

struct LevelLook {
    std::string_view name;
    std::string_view label;
    std::string_view colour;
};

constexpr std::array<LevelLook, 4> kLooks{{{"debug", "DEBUG", "\x1b[2m"},
                                           {"info", "INFO ", "\x1b[32m"},
                                           {"warn", "WARN ", "\x1b[33m"},
                                           {"error", "ERROR", "\x1b[31m"}}};

const LevelLook& look_of(LogLevel level) {
    return kLooks.at(static_cast<std::size_t>(level));
}

/// Of a field that is no text: each format writes texts in its own way.
std::string number_text(const LogField& field) {
    if (const auto* flag = std::get_if<bool>(&field.value)) return *flag ? "true" : "false";
    if (const auto* whole = std::get_if<std::int64_t>(&field.value)) return std::to_string(*whole);
    const double number = std::get<double>(field.value);
    return std::isfinite(number) ? ecmascript_number(number) : "null";
}

void append_human_value(std::string& out, const LogField& field) {
    const auto* text = std::get_if<std::string_view>(&field.value);
    const std::string line = text != nullptr ? one_line(*text) : number_text(field);
    if (line.empty() || line.find_first_of(" \"=") != std::string::npos) {
        append_json_string(out, line);  // quoted, so that it does not look like the next field
    } else {
        out += line;
    }
}

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
    /// Not through stdio, which could write a long line in pieces. A log that cannot be written (a full disk, a closed
    /// pipe) must not stop delivery: an error only ends the line.
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

std::string json_log_line(WallTime time, LogLevel level, std::string_view event, std::span<const LogField> fields) {
    JsonObject line;
    line.text("ts", rfc3339_millis(time));
    line.text("level", look_of(level).name);
    line.text("event", event);
    for (const LogField& field : fields) {
        const std::string name = valid_utf8(field.name);
        if (const auto* text = std::get_if<std::string_view>(&field.value)) {
            line.text(name, *text);
        } else {
            line.raw(name, number_text(field));
        }
    }
    // People read the lines of a pod or a journal on a terminal, which must not obey what a message's body says.
    return terminal_safe(line.done()) + "\n";
}

std::string human_log_line(WallTime time, LogLevel level, std::string_view event, std::span<const LogField> fields,
                           bool colour) {
    const LevelLook& look = look_of(level);
    const std::string_view dim = colour ? "\x1b[2m" : "";
    const std::string_view bright = colour ? look.colour : "";
    const std::string_view plain = colour ? "\x1b[0m" : "";
    const std::string time_of_day = rfc3339_millis(time).substr(11, 12);
    std::string out =
        fmt::format("{}{}{} {}{}{} {}", dim, time_of_day, plain, bright, look.label, plain, one_line(event));
    for (const LogField& field : fields) {
        out += fmt::format("  {}{}={}", dim, one_line(field.name), plain);
        append_human_value(out, field);
    }
    return out + "\n";
}

std::unique_ptr<Log> make_stderr_log(LogLevel threshold, LogFormat format) {
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    const bool human = format == LogFormat::human || (format == LogFormat::automatic && terminal);
    const char* no_colour = std::getenv("NO_COLOR");  // https://no-color.org
    const bool colour = terminal && (no_colour == nullptr || *no_colour == '\0');
    return std::make_unique<StderrLog>(threshold, human, colour);
}

}  // namespace deliverd
