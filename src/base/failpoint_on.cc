#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>

#include "base/failpoint.h"

namespace deliverd {
namespace {

struct Point {
    std::string name;
    bool crash = false;  // else wait
    std::uint64_t at_pass = 0;
    std::atomic<std::uint64_t> passes = 0;
};

[[noreturn]] void refuse(std::string_view entry) {
    const std::string message = "DELIVERD_FAILPOINTS: cannot read \"" + std::string(entry) +
                                "\"; write NAME=crash@N or NAME=wait@N, N counted from 1, separated by commas\n";
    std::fputs(message.c_str(), stderr);
    std::abort();
}

void add_point(std::deque<Point>& points, std::string_view entry) {
    const std::size_t equals = entry.find('=');
    const std::size_t at = entry.find('@', equals == std::string_view::npos ? 0 : equals);
    if (equals == std::string_view::npos || equals == 0 || at == std::string_view::npos) refuse(entry);
    const std::string_view action = entry.substr(equals + 1, at - equals - 1);
    const std::string_view number = entry.substr(at + 1);
    Point& point = points.emplace_back();
    point.name = entry.substr(0, equals);
    point.crash = action == "crash";
    const auto read = std::from_chars(number.data(), number.data() + number.size(), point.at_pass);
    const bool whole = read.ec == std::errc() && read.ptr == number.data() + number.size();
    if ((!point.crash && action != "wait") || !whole || point.at_pass == 0) refuse(entry);
}

std::deque<Point> points_from_environment() {
    std::deque<Point> points;  // a deque, because a Point with its atomic cannot move
    const char* variable = std::getenv("DELIVERD_FAILPOINTS");
    std::string_view rest = variable == nullptr ? "" : variable;
    while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        add_point(points, rest.substr(0, comma));
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
        if (rest.empty()) refuse("");
    }
    return points;
}

void strike(const Point& point) {
    if (point.crash) {
        // As in a power cut: no destructor runs and no buffer is written.
        ::kill(::getpid(), SIGKILL);
    } else {
        // Tests wait for this line before they kill the process.
        const std::string line = "failpoint " + point.name + "\n";
        std::fputs(line.c_str(), stderr);
    }
    while (true) ::pause();
}

}  // namespace

void failpoint(const char* name) noexcept {
    // Read once; the only state is each point's count of passes, which is what this file is for.
    static std::deque<Point> points = points_from_environment();
    for (Point& point : points) {
        if (point.name == name && ++point.passes == point.at_pass) strike(point);
    }
}

}  // namespace deliverd
