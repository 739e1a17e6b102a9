// One retry of all of a topic: pages of letters are read, published and recorded at the same time.
//
//   the caller's thread          publisher                      recorder
//   next_of_redrive() ─ pages ─▶ publish() of all at hand ─▶ end_of_redrive_page() of all at hand
//
// Each does one thing at a time and takes everything that waits for it, so that the slowest sets the pace and the order
// of the records stays; the first takes as many pages as there is room for, pages_at_once at most, for the wait for the
// disk is the same for one and for four. ManagerOptions::pages_in_flight and kMaxRedriveBytes bound what is between the
// first and the last. Every page that was begun is brought to its end, whatever happens. One that waited so long that
// its lease could end while it is published is not published any more.
//
// One that is resumed, with nobody there to be told, is left to the next who resumes it when it cannot go on, because
// the broker went away, say.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deadletter/manager.h"

namespace deliverd::deadletter {

/// The code with which the store says that a redrive is somebody else's.
inline constexpr std::string_view kNotOwner = "not_owner";

struct RedriveParts {
    const ManagerOptions& options;
    store::DeadLetters& letters;
    Replayer* replayer;
    Spools* spools;  // null: `refused` refuses their letters
    Log& log;
    StopGate& gate;
    const std::function<std::string()>& new_id;
    std::function<std::string(const store::LetterDetail&)> refused;  // why it is not sent; empty: it is
    bool ends_when_stopped = false;                                  // for good: nobody is to resume it
    bool resumed = false;                                            // another process began it
};

/// For one run; one thread calls it.
class RedriveRun {
public:
    RedriveRun(RedriveParts parts, std::string topic, std::string owner, std::string actor);

    /// `opened` is `owner`'s. Closes it when all was tried, or nothing could be; one that is resumed only when all was.
    RedriveReport run(store::Redrive opened);

private:
    /// Work between two threads: so many pages and bytes.
    struct Load {
        std::size_t pages = 0;
        std::size_t bytes = 0;
        Load& operator+=(const Load& other) {
            pages += other.pages;
            bytes += other.bytes;
            return *this;
        }
    };
    struct Counts {
        std::int64_t published = 0;
        std::int64_t failed = 0;
        std::int64_t in_doubt = 0;
        std::int64_t not_tried = 0;
    };

    /// For the next page.
    struct Room {
        std::int32_t letters = 0;
        std::int64_t bytes = 0;
        std::vector<std::string> passed_by{};
    };
    /// Letters begun in one transaction.
    struct Begun {
        std::vector<store::RetryClaim> claims;  // in order
        Load load;
        Instant at{};  // not later than their leases began
    };

    void read();
    void all_read();
    [[nodiscard]] std::optional<Room> room();
    bool read_page(const Room& room);
    void publish_all();
    [[nodiscard]] std::vector<store::RetryEnd> publish(std::vector<Begun> pages);
    [[nodiscard]] std::vector<store::RetryEnd> publish_begun(std::vector<Begun> pages);
    [[nodiscard]] std::vector<Outcome> send(const std::vector<Record>& records);
    /// Topics of which all in the batch were turned away get no more; what of it was not sent did not count.
    void pass_by_topics(const std::vector<Record>& records, std::vector<Outcome>& outcomes);
    [[nodiscard]] std::string not_published_now(const Begun& page);
    void give_back(const std::vector<std::string>& ids, std::vector<store::RetryEnd>& ends);
    [[nodiscard]] bool were_given_back(std::vector<store::RetryEnd>& ends);
    void put_back(const std::vector<store::LetterDetail>& letters, std::vector<store::RetryEnd>& ends);
    void record_all();
    void record(const std::vector<store::RetryEnd>& ends);
    [[nodiscard]] bool stand_so(const std::vector<store::RetryEnd>& ends);
    void check_recorded(std::int64_t recorded, const std::vector<store::RetryEnd>& ends);
    /// No further page is begun. `publish_none`: what was begun is not published any more.
    void end_early(std::string problem, bool publish_none);
    void count(store::RetryResult result, std::int64_t letters);
    void count(const store::RetryEnd& end);
    RedriveReport finish(store::Redrive opened);

    const RedriveParts parts_;
    const std::string topic_;
    const std::string owner_;
    const std::string actor_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Begun> begun_;  // in order
    std::vector<store::RetryEnd> ended_;
    Load ended_load_;
    Load in_flight_;
    bool all_read_ = false;  // no further page comes
    bool all_published_ = false;
    bool ends_early_ = false;
    bool publish_none_ = false;
    bool cut_off_ = false;   // the broker got a part of a batch, and not all of a topic that it takes
    bool gives_up_ = false;  // whoever goes on with it could do no more
    bool lost_ = false;      // the redrive is somebody else's
    bool complete_ = false;  // the store had no further page
    std::string problem_;
    std::string not_tried_reason_;
    std::vector<std::string> passed_by_;  // topics
    std::string why_passed_by_;           // of the first
    Counts counts_;
};

}  // namespace deliverd::deadletter
