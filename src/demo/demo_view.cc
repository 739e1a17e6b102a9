#include "demo/demo_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/text.h"

namespace deliverd::demo {

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

/// A part that is there has one cell at least.
std::size_t cells_of(std::int64_t part, std::int64_t whole) {
    const double share = whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
    const auto cells = static_cast<std::size_t>(std::lround(share * static_cast<double>(kBarWidth)));
    return part > 0 ? std::max<std::size_t>(cells, 1) : 0;
}

std::string repeated(const char* cell, std::size_t times) {
    std::string out;
    for (; times > 0; --times) out += cell;
    return out;
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
    constexpr std::size_t kLinesBeforeFailures = 13;
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

/// What became of a lane's messages, in figures and as one bar.
std::string lane_rows(const Paint& paint, const char* name, const DemoLane& lane) {
    const std::int64_t whole = lane.stored();
    const std::size_t open = cells_of(lane.counts.pending, whole);
    const std::size_t dead = cells_of(lane.counts.dead, whole);
    // Rounding may give one cell too many; the longest part can spare it.
    const std::size_t sent = std::min(cells_of(lane.counts.sent, whole), kBarWidth - std::min(kBarWidth, open + dead));
    std::string out =
        fmt::format("  {:<9}{:>7}   sent {:<7} open {:<5} dead {:<5}{:>7.1f}/s   lag {:.2f} s\n", name, lane.enqueued,
                    lane.counts.sent, lane.counts.pending, lane.counts.dead, lane.sent_per_second, lane.lag_seconds);
    out += fmt::format("  {:16}   {}{}{}\n", "", paint(kGreen, repeated("█", sent)),
                       paint(kYellow, repeated("▒", open)), paint(kRed, repeated("▓", dead)));
    return out;
}

std::uint64_t retries(const DemoState& s) {
    return s.memories.totals.retried + s.orders.totals.retried + s.events.totals.retried;
}

std::string sum_line(const char* name, const DemoLane& lane) {
    return fmt::format("{}: enqueued {} = sent {} + dead {} + open {}{}\n", name, lane.enqueued, lane.counts.sent,
                       lane.counts.dead, lane.counts.pending,
                       lane.adds_up() ? "" : fmt::format("   WRONG: the table holds {}", lane.stored()));
}

/// What the receiver has, held against what was handed over.
std::string taken_line(const char* what, std::int64_t handed_over, const TakenCounts& taken) {
    // A message whose answer came too late is at the receiver but not sent in the table. The other way round, it was
    // lost: the demo has found a bug.
    const std::int64_t unconfirmed = static_cast<std::int64_t>(taken.distinct) - handed_over;
    return fmt::format(
        "the receiver took {} different {}{}{}; {} came to it twice\n", taken.distinct, what,
        unconfirmed > 0 ? fmt::format(", {} of them still open because its answer came too late", unconfirmed) : "",
        unconfirmed < 0 ? fmt::format("   WRONG: {} sent ones never arrived", -unconfirmed) : "", taken.duplicates);
}

}  // namespace

std::string render_frame(const DemoState& s, bool colour, ScreenSize screen) {
    const Paint paint(colour);
    std::string out = fmt::format("{}  {}  {}\n\n", paint(kBold, "deliverd demo"),
                                  paint(kDim, fmt::format("{:.0f} s", s.elapsed_seconds)),
                                  s.draining ? paint(kYellow, "draining") : paint(kDim, "Ctrl-C ends it"));
    for (const auto& [name, lane] : s.lanes()) out += lane_rows(paint, name, *lane);
    out += fmt::format("\n  {}  {}   {}  {}   {}  {}\n", paint(kDim, "retries"), retries(s),
                       paint(kDim, "memories not sent twice"), s.memories.totals.duplicates,
                       paint(kDim, "orders posted again"), s.orders_posted_again);
    std::uint64_t taken = 0;
    for (const TakenCounts& counts : {s.receiver.memories, s.receiver.orders, s.receiver.events}) {
        taken += counts.distinct + counts.duplicates;
    }
    out += fmt::format("  {}  {} taken, {} failed, {} refused, {} to wait, {} late\n", paint(kDim, "receiver"), taken,
                       s.receiver.failed, s.receiver.refused, s.receiver.limited, s.receiver.late);
    out += fmt::format("  {}  {} pending, {} back in their lanes, {} final\n", paint(kDim, "dead letters"),
                       s.letters.pending, s.letters.resolved, s.letters.dead);
    out += fmt::format("  {}  {}\n\n", paint(kDim, "metrics "), paint(kCyan, s.api_address + "/metrics"));
    out += fmt::format("  {}\n", paint(kDim, "last failures"));
    for (const std::string& failure : s.last_failures) out += fmt::format("  {}\n", shorten(failure, kFailureBytes));
    return fitted(out, screen);
}

std::string render_line(const DemoState& s) {
    std::string out = fmt::format("{:>5.0f} s", s.elapsed_seconds);
    for (const auto& [name, lane] : s.lanes()) {
        out += fmt::format("  {} {}: sent {}  open {}  dead {}  {:.1f}/s", name, lane->enqueued, lane->counts.sent,
                           lane->counts.pending, lane->counts.dead, lane->sent_per_second);
    }
    out += fmt::format("  retries {}  dead letters sent back {}", retries(s), s.letters.sent_back);
    if (!s.last_failures.empty()) out += "  last: " + shorten(s.last_failures.front(), kFailureBytes);
    return out + "\n";
}

std::string render_totals(const DemoState& s) {
    const auto duplicates = static_cast<std::int64_t>(s.memories.totals.duplicates);
    const std::int64_t handed_over = s.memories.counts.sent - duplicates;
    std::string out = "\n";
    boost::json::object lanes;
    for (const auto& [name, lane] : s.lanes()) {
        out += sum_line(name, *lane);
        lanes[name] = {{"enqueued", lane->enqueued},
                       {"sent", lane->counts.sent},
                       {"dead", lane->counts.dead},
                       {"open", lane->counts.pending}};
    }
    out +=
        fmt::format("of the memories sent, {} were equal to one sent before and were not sent again: {} handed over\n",
                    duplicates, handed_over);
    out += taken_line("memories", handed_over, s.receiver.memories);
    out +=
        fmt::format("{} posts repeated an order that was accepted before, and stored nothing\n", s.orders_posted_again);
    out += taken_line("orders", s.orders.counts.sent, s.receiver.orders);
    out += taken_line("events", s.events.counts.sent, s.receiver.events);
    out += s.receiver.out_of_order == 0
               ? std::string("of every order its events came first as written: created, paid, shipped\n")
               : fmt::format("WRONG: {} events came before an earlier one of their order\n", s.receiver.out_of_order);
    out += fmt::format("it failed {} calls, refused {}, told {} to wait and answered {} late\n", s.receiver.failed,
                       s.receiver.refused, s.receiver.limited, s.receiver.late);
    out += fmt::format(
        "dead letters: {} pending, {} back in their lanes, {} final (orders are not sent again); retried {} times\n",
        s.letters.pending, s.letters.resolved, s.letters.dead, s.letters.sent_back);
    const boost::json::object letters{{"pending", s.letters.pending},
                                      {"resolved", s.letters.resolved},
                                      {"dead", s.letters.dead},
                                      {"sent_back", s.letters.sent_back}};
    return out + boost::json::serialize(boost::json::object{{"lanes", lanes}, {"dead_letters", letters}}) + "\n";
}

}  // namespace deliverd::demo
