// Which topics accept nothing at the moment, and what that means for the events bound for them. Pure code over
// instants.
//
// A sink answers *not attempted* when the reason is not the message's: a partition without a leader, a stream that is
// away. It does not say whether all of the receiver is at fault. That shows in what else is delivered:
//
//   - Something to the same topic, sent no earlier than this event was first: only a part of the topic is away, such as
//     a partition. The event is counted as failed, and the topic is not paused, because deliverd cannot know which
//     events are bound for that part.
//   - Nothing: the topic is paused, and the event waits, uncounted. When the pause is over, a few events are tried. So
//     an outage costs no attempts.
//   - Something to another topic, since this one was last found unable: the topic is *alone* in its trouble. Events
//     that are tried and refused again are counted. The others wait; those that there is no room for are counted
//     without a try, so that they wait in the database instead of in memory. No event dies of that: it may be bound for
//     a healthy partition.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/clock.h"
#include "message/message.h"

namespace deliverd::pipeline {

/// One thread at a time. Instants never go back.
class Destinations {
public:
    static constexpr std::size_t kMostPaused = 1000;     // topics; one more replaces the one whose pause ends first
    static constexpr std::size_t kMostDelivered = 1000;  // topics; one more replaces all
    /// Other events are tried if those on trial have no outcome by then.
    static constexpr Duration kTrial = std::chrono::seconds(5);

    /// `trials`: events that may be tried when pauses are over, of all paused topics together; at least one of each.
    explicit Destinations(std::size_t trials) : trials_(trials) {}

    enum class May {
        go,
        wait,
        wait_or_fail,  // fail with why() if there is no room to wait
    };
    /// What an event bound for `topic` may do now. `go` puts it on trial if the topic was paused.
    [[nodiscard]] May ask(std::string_view topic, Instant now);
    /// The outcome that paused the topic. Precondition: ask() just answered `wait_or_fail`.
    [[nodiscard]] const Outcome& why(std::string_view topic) const {
        const auto paused = paused_.find(topic);
        ASSERT(paused != paused_.end());
        return paused->second.why;
    }

    enum class Refusal {
        waits,
        counts,
        counts_alone,  // and the topic was not alone before
    };
    /// An event for `topic` was not attempted; it was sent at `began`, and for the first time at `first_began`. Pauses
    /// the topic for `pause`, unless only a part of it is away.
    [[nodiscard]] Refusal refused(std::string_view topic, Instant first_began, Instant began, Instant now,
                                  Duration pause, const Outcome& why);
    /// An event for `topic`, sent at `began`, was attempted. True: that ended the pause of the topic.
    [[nodiscard]] bool attempted(std::string_view topic, Instant began, bool delivered);

    [[nodiscard]] std::size_t trials() const { return trials_; }
    [[nodiscard]] bool all_open() const { return paused_.empty(); }
    /// When the first pause ends; Instant::max() if there is none.
    [[nodiscard]] Instant first_end() const;

private:
    struct Pause {
        Instant refused_at;  // last
        Instant since;       // last refusal before those on trial were sent
        Instant until;
        std::size_t trials_left = 0;
        bool alone = false;
        Outcome why{};
    };
    Pause& pause_of(std::string_view topic, Instant now);
    void was_delivered(std::string_view topic, Instant began);

    const std::size_t trials_;
    std::map<std::string, Pause, std::less<>> paused_;
    // When the latest delivered event was sent: of all, and by topic.
    Instant last_delivered_ = Instant::min();
    std::map<std::string, Instant, std::less<>> delivered_;
};

}  // namespace deliverd::pipeline
