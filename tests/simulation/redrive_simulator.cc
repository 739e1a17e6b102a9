#include "redrive_simulator.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "deadletter/manager.h"
#include "deadletter/redrive.h"

namespace deliverd::simulation {

namespace {

using deadletter::Manager;
using deadletter::RedriveRun;
using Step = RedriveRun::Step;

constexpr std::size_t kProcesses = 3;
constexpr Duration kLease = std::chrono::seconds(30);
constexpr int kFinalRounds = 12;

/// The remaining steps of a redrive.
struct OpenRun {
    std::unique_ptr<RedriveRun> run;
    std::string topic;
    bool resumed = false;
    std::array<bool, 3> ended{};

    bool make(std::size_t which) {
        static constexpr std::array kSteps = {&RedriveRun::read_step, &RedriveRun::publish_step,
                                              &RedriveRun::record_step};
        if (!ended.at(which)) ended.at(which) = ((*run).*kSteps.at(which))() == Step::ended;
        return ended[0] && ended[1] && ended[2];
    }
};

class Simulation {
public:
    Simulation(RedriveStore& store, std::uint64_t seed, const RedriveFaults& faults, RedriveSabotage sabotage)
        : random_(seed), world_(store, random_, faults, sabotage) {
        report_.seed = seed;
    }

    RedriveSimReport run() {
        world_.store().clear();
        world_.add_letters(static_cast<int>(10 + random_.below(40)));
        for (Process& process : processes_) start(process);
        const std::uint64_t steps = 100 + random_.below(300);
        for (world_.step = 1; world_.step <= steps && world_.violations.empty(); ++world_.step) {
            world_.store().time().advance(std::chrono::milliseconds(1 + random_.below(200)));
            if (world_.chance(world_.faults().leap)) world_.store().time().advance(kLease + std::chrono::seconds(1));
            world_.turn();
            guarded(processes_[random_.below(kProcesses)], [this](Process& process) { act(process); });
        }
        if (world_.violations.empty()) come_to_rest();
        if (world_.violations.empty()) check();
        report_.violations = world_.violations;
        report_.trace = world_.trace;
        report_.repeated = world_.repeated;
        report_.deaths = world_.deaths;
        report_.outages = world_.outages;
        report_.lost_answers = world_.lost_answers;
        return report_;
    }

private:
    struct Process {
        std::unique_ptr<store::DeadLetters> letters;
        std::unique_ptr<Manager> manager;
        std::optional<OpenRun> open;
        bool stopping = false;
    };

    void start(Process& process) {
        process.open.reset();
        process.manager.reset();
        process.letters = faulty_letters(world_);
        deadletter::ManagerOptions options;
        options.retry_lease = kLease;
        options.page = 2;
        options.pages_at_once = 2;
        options.pages_in_flight = 4;
        options.store_retry_wait = Duration::zero();
        options.clock = world_.store().shared_time();
        process.manager = std::make_unique<Manager>(options, *process.letters, &world_, log_, [this] {
            return fmt::format("00000000-0000-4000-9000-{:012}", ++ids_);
        });
        process.stopping = false;
    }

    template <typename Action>
    void guarded(Process& process, Action action) {
        try {
            action(process);
        } catch (const ProcessDied&) {
            world_.note("died");
            start(process);
        }
    }

    void act(Process& process) {
        if (world_.chance(world_.faults().stop)) {
            process.manager->close();
            process.stopping = true;
            ++report_.stopped;
        }
        if (process.open) return advance(process, random_.below(3));
        if (process.stopping) return start(process);
        if (world_.chance(world_.faults().single)) return retry_one(process);
        if (random_.below(2) == 0) return resume(process);
        const bool other_name = world_.chance(world_.faults().second_name);
        begin(process, std::string(other_name ? kTopics[random_.below(std::size(kTopics))] : kDeadTopic), false);
    }

    void advance(Process& process, std::size_t which) {
        OpenRun& open = *process.open;
        if (!open.make(which)) return;
        const auto report = open.run->finish();
        world_.note("finished " + report.problem);
        const bool complete = report.redrive.finished && report.problem.empty();
        if (complete) ++report_.complete;
        if (complete && world_.left_over(world_.closed[open.topic]) > report.not_tried) {
            world_.violated(fmt::format("the {} redrive of {} is complete, but has skipped letters",
                                        open.resumed ? "resumed" : "fresh", open.topic));
        }
        process.open.reset();
    }

    void retry_one(Process& process) {
        ++report_.singles;
        auto at = world_.letters.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random_.below(world_.letters.size())));
        const auto report = process.manager->retry(at->first, "ops");
        world_.note("retried " + report.message);
        if (report.answer == deadletter::RetryAnswer::resolved && at->second.arrived == 0) {
            world_.violated("a retry says that letter " + at->first + " was published, but it did not arrive");
        }
    }

    void resume(Process& process) {
        const auto abandoned = process.letters->abandoned_redrives();
        if (!abandoned || abandoned->empty() || !world_.check({})) return;
        ++report_.resumed;
        begin(process, abandoned->front().topic, true);
    }

    void begin(Process& process, const std::string& topic, bool resumed) {
        auto run = process.manager->begin_redrive(topic, "ops", {}, resumed);
        if (run && *run) process.open = OpenRun{.run = std::move(*run), .topic = topic, .resumed = resumed};
    }

    void finish(Process& process) {
        for (std::size_t turn = 0; process.open; ++turn) advance(process, turn % 3);
    }

    void come_to_rest() {
        world_.heal();
        Process& last = processes_.front();
        for (Process& process : processes_) {
            if (random_.below(2) == 0) {
                finish(process);
            } else {
                start(process);  // killed
            }
        }
        for (int round = 0; round < kFinalRounds && world_.violations.empty(); ++round) {
            ++world_.step;
            world_.store().time().advance(2 * kLease);
            start(last);
            while (!must_be(last.letters->abandoned_redrives()).empty() && world_.violations.empty()) {
                resume(last);
                finish(last);
            }
            begin(last, std::string(kDeadTopic), false);
            finish(last);
        }
    }

    template <typename T>
    T must_be(Result<T> result) {
        if (result) return std::move(*result);
        world_.violated("after the faults: " + result.error().message);
        return {};
    }

    void check() {
        for (const auto& [id, letter] : world_.letters) {
            report_.arrived += letter.arrived > 0 ? 1 : 0;
            const std::string row = " from dlq_messages where id = '" + id + "'";
            const bool resolved = world_.store().number("select status = 'RESOLVED'" + row) == 1;
            if (letter.poison) {
                if (resolved || letter.arrived > 0) world_.violated("letter " + id + " was refused, but is RESOLVED");
            } else if (!resolved || letter.arrived == 0) {
                world_.violated(fmt::format("letter {} is {}RESOLVED and arrived {} times", id, resolved ? "" : "not ",
                                            letter.arrived));
            }
            if (world_.store().number("select retry_owner is not null" + row) != 0) {
                world_.violated("a retry of letter " + id + " has no end");
            }
        }
        for (const store::TopicCounts& topic : must_be(world_.store().letters().topics())) {
            const auto rows = [&](const char* status) {
                return world_.store().number(std::string("select count(*) from dlq_messages where status = '") +
                                             status + "'");
            };
            if (topic.pending != rows("PENDING") || topic.retrying != rows("RETRYING") ||
                topic.resolved != rows("RESOLVED") || topic.dead != rows("DEAD")) {
                world_.violated("the counts of " + topic.topic + " are not those of its letters");
            }
        }
    }

    SeededRandom random_;
    RedriveWorld world_;
    NullLog log_;
    std::uint64_t ids_ = 0;
    std::array<Process, kProcesses> processes_;
    RedriveSimReport report_;
};

}  // namespace

RedriveFaults redrive_faults(std::uint64_t seed) {
    SeededRandom random(seed * 31 + 7);
    const auto some = [&](double most) { return random.below(3) == 0 ? 0 : random.between(0, most); };
    return {.store_fails = some(0.15),
            .answer_lost = some(0.1),
            .dies = some(0.08),
            .broker_away = some(0.08),
            .topic_gone = some(0.03),
            .cut_off = some(0.2),
            .unconfirmed = some(0.1),
            .leap = some(0.05),
            .stop = some(0.02),
            .single = some(0.4),
            .second_name = some(0.3)};
}

RedriveSimReport simulate_redrives(RedriveStore& store, std::uint64_t seed, const RedriveFaults& faults,
                                   RedriveSabotage sabotage) {
    return Simulation(store, seed, faults, sabotage).run();
}

}  // namespace deliverd::simulation
