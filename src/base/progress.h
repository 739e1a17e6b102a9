// One line on a terminal that shows the progress of a long command.
#pragma once

#include <unistd.h>

#include <ostream>
#include <string_view>
#include <utility>

namespace deliverd {

/// Shows nothing if standard error is not a terminal. One thread at a time. `err` outlives it and is written there.
class Progress {
public:
    explicit Progress(std::ostream& err) : err_(err), on_(::isatty(STDERR_FILENO) == 1) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Replaces the line.
    void show(std::string_view line) {
        if (!on_) return;
        err_ << '\r' << line << "\x1b[K" << std::flush;
        shown_ = true;
    }
    void clear() {
        if (std::exchange(shown_, false)) err_ << "\r\x1b[K" << std::flush;
    }

private:
    std::ostream& err_;
    const bool on_;
    bool shown_ = false;
};

}  // namespace deliverd
