// Which topics take nothing at the moment, and what that means for the events bound for them. Pure code over instants.
//
// A sink answers *not attempted* when the reason is not the message's: a partition without a leader, a stream that is
// away. Whether the whole receiver is away or only this topic shows in what else is delivered:
//
//   - Nothing else is: the topic's events wait, uncounted, and one of them is tried when the pause is over. So an
//   outage
//     costs no attempts.
//   - Something was delivered to another topic since: the topic is *alone* in its trouble. Its events are counted as
//     failed, so that they wait in the database instead of in the relay's hand, and become dead letters in the end. One
//     is tried when the pause is over; the others fail without a try.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "message/message.h"

namespace deliverd::relay {

/// One thread at a time. Instants never go back.
class Destinations {
public:
    static constexpr std::size_t kMostPaused = 1000;  // topics; the one whose pause ends first is forgotten for another
    /// Another event is tried if the one on trial has no outcome by then.
    static constexpr Duration kTrial = std::chrono::seconds(5);

    enum class May {
        go,
        wait,
        fail,  // with why()
    };
    /// What an event bound for `topic` may do now. `go` makes it the one on trial if the topic was paused.
    [[nodiscard]] May ask(std::string_view topic, Instant now);
    /// The outcome that paused the topic. Precondition: ask() just answered `fail`.
    [[nodiscard]] const Outcome& why(std::string_view topic) const { return paused_.find(topic)->second.why; }

    /// An event for `topic` was not attempted; nothing goes there for `pause`. True: it counts as a failure.
    [[nodiscard]] bool refused(std::string_view topic, Instant now, Duration pause, const Outcome& why);
    /// An event for `topic` was attempted, from `began` on. True: events that wait may now do something else.
    [[nodiscard]] bool attempted(std::string_view topic, Instant began, bool delivered);

    [[nodiscard]] bool all_open() const { return paused_.empty(); }
    /// When the first pause ends; Instant::max() if there is none.
    [[nodiscard]] Instant first_end() const;

private:
    struct Pause {
        Instant since;
        Instant until;
        bool alone = false;
        Outcome why;
    };
    std::map<std::string, Pause, std::less<>> paused_;
    std::size_t not_alone_ = 0;
};

}  // namespace deliverd::relay
