// Which topics take nothing at the moment, and what that means for the events bound for them. Pure code over instants.
//
// A sink answers *not attempted* when the reason is not the message's: a partition without a leader, a stream that is
// away. How much of the receiver is away shows in what else is delivered:
//
//   - Something to the same topic, sent no earlier than this event was first: only a part of the topic is
//     away, such as a partition. The event is counted as failed, and the topic is not paused.
//   - Nothing: the topic is paused, and the event waits, uncounted. When the pause is over, a few events are
//     tried. So an outage costs no attempts.
//   - Something to another topic, since this one was last found unable: the topic is *alone* in its trouble.
//     Events that are tried and refused again are counted. The others wait; those that there is no room for are
//     counted without a try, so that they wait in the database instead of in the relay's hand.
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
    static constexpr std::size_t kMostDelivered = 1000;  // topics; all are forgotten for another
    /// Others are tried if those on trial have no outcome by then.
    static constexpr Duration kTrial = std::chrono::seconds(5);

    /// When pauses are over, so many events may be tried, of all paused topics together; one of each at least.
    explicit Destinations(std::size_t trials) : trials_(trials) {}

    enum class May {
        go,
        wait,
        wait_or_fail,  // with why(), where there is no room to wait
    };
    /// What an event bound for `topic` may do now. `go` puts it on trial if the topic was paused.
    [[nodiscard]] May ask(std::string_view topic, Instant now);
    /// The outcome that paused the topic. Precondition: ask() just answered `wait_or_fail`.
    [[nodiscard]] const Outcome& why(std::string_view topic) const { return paused_.find(topic)->second.why; }

    enum class Refusal {
        waits,
        counts,
        counts_alone,  // and the topic was not alone before
    };
    /// An event for `topic` was not attempted: sent at `began`, and at `first_began` for the first time. Unless only a
    /// part of the topic is away, nothing goes there for `pause`.
    [[nodiscard]] Refusal refused(std::string_view topic, Instant first_began, Instant began, Instant now,
                                  Duration pause, const Outcome& why);
    /// An event for `topic`, sent at `began`, was attempted. True: the topic was paused, and no longer is.
    [[nodiscard]] bool attempted(std::string_view topic, Instant began, bool delivered);

    [[nodiscard]] std::size_t trials() const { return trials_; }
    [[nodiscard]] bool all_open() const { return paused_.empty(); }
    /// When the first pause ends; Instant::max() if there is none.
    [[nodiscard]] Instant first_end() const;

private:
    struct Pause {
        Instant refused_at;  // last
        Instant since;       // last, before those on trial were sent
        Instant until;
        std::size_t trials_left = 0;
        bool alone = false;
        Outcome why{};
    };
    Pause& pause_of(std::string_view topic, Instant now);
    void was_delivered(std::string_view topic, Instant began);

    const std::size_t trials_;
    std::map<std::string, Pause, std::less<>> paused_;
    // When the latest that was delivered had been sent: of all, and by topic.
    Instant last_delivered_ = Instant::min();
    std::map<std::string, Instant, std::less<>> delivered_;
};

}  // namespace deliverd::relay
