// What the demo shows, as text: pure, so that it can be tested.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "demo/demo_receiver.h"
#include "pipeline/reporter.h"
#include "store/row_queue.h"

namespace deliverd::demo {

struct DemoLane {
    std::int64_t enqueued = 0;
    store::RowCounts counts{};
    double sent_per_second = 0;  // over the last few seconds
    double lag_seconds = 0;
    pipeline::LaneTotals totals{};

    /// What the table holds.
    [[nodiscard]] std::int64_t stored() const { return counts.pending + counts.sent + counts.dead; }
    [[nodiscard]] bool adds_up() const { return stored() == enqueued; }
};

struct DemoLetters {
    std::int64_t pending = 0;
    std::int64_t resolved = 0;   // back in their lanes
    std::int64_t dead = 0;       // orders, which are not sent again
    std::int64_t sent_back = 0;  // successful retries; more than `resolved` if a message died again
};

struct DemoState {
    double elapsed_seconds = 0;
    std::string api_address;
    DemoLane memories;
    DemoLane orders;
    DemoLane events;
    DemoLetters letters;
    std::int64_t orders_posted_again = 0;  // with a key that was accepted before
    ReceiverCounts receiver;
    std::vector<std::string> last_failures;  // newest first
    bool draining = false;

    [[nodiscard]] std::array<std::pair<const char*, const DemoLane*>, 3> lanes() const {
        return {{{"memories", &memories}, {"orders", &orders}, {"events", &events}}};
    }
};

struct ScreenSize {
    std::size_t columns = 80;
    std::size_t rows = 24;
};

/// A frame that fits the screen: every line is narrower, and there are no more lines than rows. On a low screen, fewer
/// of the last failures are shown, or none. With `colour`, ANSI colours.
[[nodiscard]] std::string render_frame(const DemoState& state, bool colour, ScreenSize screen);

/// The same in one line, for output that is not a terminal.
[[nodiscard]] std::string render_line(const DemoState& state);

/// The totals at the end: lines for people, then one line of JSON.
[[nodiscard]] std::string render_totals(const DemoState& state);

}  // namespace deliverd::demo
