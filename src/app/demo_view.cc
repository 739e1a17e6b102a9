#include "app/demo_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/text.h"

namespace deliverd::app {

namespace {

constexpr std::size_t kBarWidth = 40;
constexpr std::size_t kFailureBytes = 100;

class Paint {
public:
    explicit Paint(bool on) : on_(on) {}
    [[nodiscard]] std::string operator()(const char* code, const std::string& text) const {
        return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
    }

private:
    bool on_;
};

constexpr const char* kBold = "1";
constexpr const char* kDim = "2";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";
constexpr const char* kRed = "31";
constexpr const char* kCyan = "36";

std::string bar(std::int64_t part, std::int64_t whole) {
    const double share = whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
    auto cells = static_cast<std::size_t>(std::lround(share * static_cast<double>(kBarWidth)));
    if (part > 0) cells = std::max<std::size_t>(cells, 1);
    std::string out;
    for (std::size_t i = 0; i < kBarWidth; ++i) out += i < cells ? "█" : "·";
    return out;
}

std::string state_row(const Paint& paint, const char* colour, const char* name, std::int64_t rows, std::int64_t whole) {
    return fmt::format("  {:<9}{:>8}  {}\n", name, rows, paint(colour, bar(rows, whole)));
}

/// The first `columns` characters of a line, with all of its colours: those take no room.
std::string cut_line(std::string_view line, std::size_t columns) {
    std::string out;
    std::size_t used = 0;
    bool in_colour = false;
    bool taken = true;
    for (const char c : line) {
        if (c == '\x1b') in_colour = true;
        if (in_colour) {
            out += c;
            if (c == 'm') in_colour = false;
            continue;
        }
        const bool continued = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;  // of a UTF-8 character
        if (!continued) taken = used++ < columns;
        if (taken) out += c;
    }
    return out;
}

/// One column stays free: with the last one in use, terminals differ in where the cursor is.
std::string fitted(std::string_view frame, ScreenSize screen) {
    constexpr std::size_t kLinesBeforeFailures = 10;
    constexpr std::size_t kLinesWithAFailure = kLinesBeforeFailures + 3;
    const std::size_t lines =
        screen.rows < kLinesWithAFailure ? std::min(screen.rows, kLinesBeforeFailures) : screen.rows;
    std::string out;
    for (std::size_t n = 0; n < lines && !frame.empty(); ++n) {
        const std::size_t end = frame.find('\n');
        out += cut_line(frame.substr(0, end), std::max<std::size_t>(screen.columns, 2) - 1) + "\n";
        frame.remove_prefix(end + 1);
    }
    return out;
}

std::int64_t whole_of(const DemoState& s) {
    return s.counts.pending + s.counts.sent + s.counts.dead;
}

}  // namespace

std::string render_frame(const DemoState& s, bool colour, ScreenSize screen) {
    const Paint paint(colour);
    const std::int64_t whole = whole_of(s);
    std::string out = fmt::format("{}  {}  {}\n\n", paint(kBold, "deliverd demo"),
                                  paint(kDim, fmt::format("{:.0f} s", s.elapsed_seconds)),
                                  s.draining ? paint(kYellow, "draining") : paint(kDim, "Ctrl-C ends it"));
    out += fmt::format("  {:<9}{:>8}\n", "memories", s.enqueued);
    out += state_row(paint, kGreen, "sent", s.counts.sent, whole);
    out += state_row(paint, kYellow, "open", s.counts.pending, whole);
    out += state_row(paint, kRed, "dead", s.counts.dead, whole);
    out += fmt::format("\n  {}  {:.1f}/s   {}  {:.2f} s   {}  {}   {}  {}\n", paint(kDim, "sent"), s.sent_per_second,
                       paint(kDim, "lag"), s.lag_seconds, paint(kDim, "retries"), s.totals.retried,
                       paint(kDim, "not sent twice"), s.totals.duplicates);
    out += fmt::format("  {}  {} taken, {} failed, {} refused, {} to wait, {} late\n", paint(kDim, "receiver"),
                       s.receiver.distinct + s.receiver.duplicates, s.receiver.failed, s.receiver.refused,
                       s.receiver.limited, s.receiver.late);
    out += fmt::format("  {}  {}\n\n", paint(kDim, "metrics "), paint(kCyan, s.api_address + "/metrics"));
    out += fmt::format("  {}\n", paint(kDim, "last failures"));
    for (const std::string& failure : s.last_failures) out += fmt::format("  {}\n", shorten(failure, kFailureBytes));
    return fitted(out, screen);
}

std::string render_line(const DemoState& s) {
    return fmt::format("{:>5.0f} s  enqueued {}  sent {}  open {}  dead {}  {:.1f}/s  lag {:.2f} s  retries {}{}\n",
                       s.elapsed_seconds, s.enqueued, s.counts.sent, s.counts.pending, s.counts.dead, s.sent_per_second,
                       s.lag_seconds, s.totals.retried,
                       s.last_failures.empty() ? "" : "  last: " + shorten(s.last_failures.front(), kFailureBytes));
}

std::string render_totals(const DemoState& s) {
    const std::int64_t whole = whole_of(s);
    std::string out =
        fmt::format("\nenqueued {} = sent {} + dead {} + open {}{}\n", s.enqueued, s.counts.sent, s.counts.dead,
                    s.counts.pending, whole == s.enqueued ? "" : fmt::format("   WRONG: the table holds {}", whole));
    const auto duplicates = static_cast<std::int64_t>(s.totals.duplicates);
    const std::int64_t handed_over = s.counts.sent - duplicates;
    const std::int64_t unconfirmed = static_cast<std::int64_t>(s.receiver.distinct) - handed_over;
    out += fmt::format("of those sent, {} were equal to one sent before and were not sent again: {} handed over\n",
                       duplicates, handed_over);
    out += fmt::format(
        "the receiver took {} different memories{}{}\n", s.receiver.distinct,
        unconfirmed > 0 ? fmt::format(", {} of them still open because its answer came too late", unconfirmed) : "",
        unconfirmed < 0 ? fmt::format("   WRONG: {} sent ones never arrived", -unconfirmed) : "");
    out += fmt::format("{} came to it twice, each after an answer that was late or lost\n", s.receiver.duplicates);
    out += fmt::format("it failed {} calls, refused {}, told {} to wait and answered {} late\n", s.receiver.failed,
                       s.receiver.refused, s.receiver.limited, s.receiver.late);
    const boost::json::object lane{
        {"enqueued", s.enqueued}, {"sent", s.counts.sent}, {"dead", s.counts.dead}, {"open", s.counts.pending}};
    const boost::json::object line{{"lanes", boost::json::object{{"memories", lane}}}};
    return out + boost::json::serialize(line) + "\n";
}

}  // namespace deliverd::app
