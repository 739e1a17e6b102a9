// What surrounds the redrives of a simulation: a real SQLite store on a simulated clock, with calls that fail and
// processes that die in the middle, and a broker that goes away. Everything is drawn from one Random on one thread, so
// that a seed repeats a run exactly.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "deadletter/ports.h"
#include "store/database.h"

namespace deliverd::simulation {

/// Thrown by a store call: the process that made it is dead.
struct ProcessDied {};

/// Probabilities per opportunity.
struct RedriveFaults {
    double store_fails = 0;  // a store call fails before it takes effect
    double answer_lost = 0;  // … takes effect or not, and its answer is lost
    double dies = 0;         // the process dies at a store call, before or after it takes effect
    double broker_away = 0;  // no broker answers for a while
    double topic_gone = 0;   // one topic accepts nothing for a while
    double cut_off = 0;      // the broker becomes unavailable in the middle of a batch
    double unconfirmed = 0;  // one record may have arrived without a confirmation
    double leap = 0;         // more time passes than a lease lasts
    double stop = 0;         // a process is stopped properly
    double single = 0;       // a person retries one letter
    double second_name = 0;  // … retries all letters by the topic's other name
};

/// Breaks a promise of the store on purpose, to test that the simulation notices.
enum class RedriveSabotage {
    none,
    not_tried_counts_as_tried,  // a letter given back keeps the time of its retry, so a resumed redrive skips it
    doubt_is_forgotten,         // a letter that may have been published is recorded as not published
};

/// The clock of the processes and, through a SQLite VFS, of the database. One per program.
class SimulatedTime final : public Clock {
public:
    SimulatedTime();
    [[nodiscard]] Instant now() const override { return Instant(std::chrono::milliseconds(millis_)); }
    [[nodiscard]] WallTime wall_now() const override { return WallTime(std::chrono::milliseconds(millis_)); }
    [[nodiscard]] std::int64_t millis() const { return millis_; }
    void advance(Duration span) { millis_ += std::chrono::duration_cast<std::chrono::milliseconds>(span).count(); }
    void reset() { millis_ = kBeginning; }

private:
    static constexpr std::int64_t kBeginning = 1'800'000'000'000;  // 2027
    std::int64_t millis_ = kBeginning;
};

/// The store: a file in memory that one schedule after the other uses.
class RedriveStore {
public:
    RedriveStore();
    ~RedriveStore();
    RedriveStore(const RedriveStore&) = delete;
    RedriveStore& operator=(const RedriveStore&) = delete;

    SimulatedTime& time() { return *time_; }
    std::shared_ptr<SimulatedTime> shared_time() { return time_; }
    store::DeadLetters& letters() { return *letters_; }
    void clear();
    void run(const std::string& sql);
    /// The first column of the only row.
    std::int64_t number(const std::string& sql);

private:
    std::shared_ptr<SimulatedTime> time_;
    std::string folder_;
    NullLog log_;
    std::unique_ptr<store::Database> database_;
    std::unique_ptr<store::DeadLetters> letters_;
    sqlite3* plain_ = nullptr;
};

/// One letter of the simulation, and what the simulated broker saw of it.
struct KnownLetter {
    std::string topic;    // where it is sent back to
    bool poison = false;  // the broker refuses it because of its content
    int arrived = 0;
    std::uint64_t tried_step = 0;  // the last step in which the broker got it, or may have
    bool in_doubt = false;         // the last retry began in doubt
    std::string owner;             // whose retry is under way …
    std::string owner_redrive;     // … in this redrive (RedriveLife::name); empty: a single retry
    std::int64_t owned_until = 0;  // in milliseconds
    /// When the lease of a redrive (by its name) or of a single retry (empty) ended.
    std::map<std::string, std::int64_t> held_until;
};

/// A redrive from its beginning until it is closed, in one or more processes.
struct RedriveLife {
    std::string name;  // the topic and a number
    std::string owner;
    std::uint64_t begun_step = 0;
    std::int64_t begun_at = 0;
    std::set<std::string> letters;  // that existed when it began
    std::int64_t published = 0;
    std::int64_t failed = 0;
    std::int64_t in_doubt = 0;
    bool counts_known = true;  // every recorded end is known
};

/// The broker, the letters, and what is known about them.
class RedriveWorld final : public deadletter::Replayer {
public:
    RedriveWorld(RedriveStore& store, Random& random, const RedriveFaults& faults, RedriveSabotage sabotage);

    void add_letters(int count);

    // --- the broker ------------------------------------------------------------------------------------------------

    std::vector<Outcome> publish(std::span<const Record> records) override;
    Result<void> check(Duration) override;
    void stop() override {}

    /// Outages begin and end.
    void turn();
    /// No more faults.
    void heal();

    // --- what is known ---------------------------------------------------------------------------------------------

    std::uint64_t step = 0;
    std::map<std::string, KnownLetter> letters;   // by id
    std::map<std::string, RedriveLife> redrives;  // unfinished, by topic
    std::map<std::string, RedriveLife> closed;    // the last one that was closed, by topic
    std::vector<std::string> violations;
    int lives = 0;                                  // redrives begun
    std::uint64_t trace = 14695981039346656037ULL;  // FNV-1a of everything that happened
    std::uint64_t repeated = 0;
    std::uint64_t outages = 0;
    std::uint64_t lost_answers = 0;
    std::uint64_t deaths = 0;

    void note(std::string_view what);
    void violated(std::string what);
    /// Letters of the redrive that could have been retried but were not tried.
    std::int64_t left_over(const RedriveLife& life);
    RedriveStore& store() { return store_; }
    Random& random() { return random_; }
    [[nodiscard]] bool chance(double probability) { return !healed_ && random_.unit() < probability; }
    [[nodiscard]] const RedriveFaults& faults() const { return faults_; }
    [[nodiscard]] RedriveSabotage sabotage() const { return sabotage_; }

private:
    Outcome answer(const Record& record);
    [[nodiscard]] Outcome delivered(KnownLetter& letter, const std::string& id);

    RedriveStore& store_;
    Random& random_;
    const RedriveFaults faults_;
    const RedriveSabotage sabotage_;
    bool healed_ = false;
    bool away_ = false;
    bool silent_ = false;  // unavailable; it may or may not have got what it was sent
    std::set<std::string> gone_topics_;
};

/// The store as one process sees it.
std::unique_ptr<store::DeadLetters> faulty_letters(RedriveWorld& world);

/// The names of the topics: the dead-letter topic that all letters were read from, and the original ones.
inline constexpr std::string_view kDeadTopic = "all.dlq.v1";
inline constexpr std::string_view kTopics[] = {"bills", "mails", "orders"};

}  // namespace deliverd::simulation
