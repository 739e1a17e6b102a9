#include "redrive_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "store/sqlite/sqlite.h"

namespace deliverd::simulation {

namespace {

constexpr std::int64_t kUnixEpochJulianMillis = 210'866'760'000'000;
SimulatedTime* the_time = nullptr;  // SQLite gives a VFS's functions no argument of ours

int simulated_now(sqlite3_vfs*, sqlite3_int64* julian_millis) {
    *julian_millis = kUnixEpochJulianMillis + the_time->millis();
    return SQLITE_OK;
}

/// SQLite's own VFS, except for the time. The first database that is opened after this uses it.
void install_clock() {
    static sqlite3_vfs vfs = *sqlite3_vfs_find(nullptr);
    vfs.zName = "simulated-time";
    vfs.xCurrentTimeInt64 = simulated_now;
    if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK) throw std::runtime_error("SQLite takes no VFS");
}

std::string new_folder() {
    std::string name =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/deliverd-simulation-XXXXXX" : "/tmp/deliverd-simulation-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    return name;
}

template <typename T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
}

}  // namespace

// --- time and store ------------------------------------------------------------------------------------------------

SimulatedTime::SimulatedTime() {
    the_time = this;
}

RedriveStore::RedriveStore() : time_(std::make_shared<SimulatedTime>()), folder_(new_folder()) {
    install_clock();
    const std::string path = folder_ + "/letters.db";
    database_ = must(store::open_sqlite({.path = path}, log_));
    must(database_->migrate(false));
    letters_ = database_->dead_letters();
    if (sqlite3_open(path.c_str(), &plain_) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(plain_));
}

RedriveStore::~RedriveStore() {
    sqlite3_close(plain_);
    letters_.reset();
    database_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

void RedriveStore::clear() {
    run("delete from dlq_messages; delete from deliverd_redrives; delete from dlq_audit");
    time_->reset();
}

void RedriveStore::run(const std::string& sql) {
    if (sqlite3_exec(plain_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
        throw std::runtime_error(sqlite3_errmsg(plain_));
    }
}

std::int64_t RedriveStore::number(const std::string& sql) {
    std::int64_t answer = -1;
    const auto take = [](void* out, int, char** values, char**) {
        *static_cast<std::int64_t*>(out) = values[0] == nullptr ? -1 : std::atoll(values[0]);
        return 0;
    };
    if (sqlite3_exec(plain_, sql.c_str(), take, &answer, nullptr) != SQLITE_OK) {
        throw std::runtime_error(sqlite3_errmsg(plain_));
    }
    return answer;
}

// --- the broker ----------------------------------------------------------------------------------------------------

RedriveWorld::RedriveWorld(RedriveStore& store, Random& random, const RedriveFaults& faults, RedriveSabotage sabotage)
    : store_(store), random_(random), faults_(faults), sabotage_(sabotage) {}

void RedriveWorld::add_letters(int count) {
    std::string sql = "begin;";
    for (int i = 0; i < count; ++i) {
        const std::size_t number = letters.size() + 1;
        const std::string id = fmt::format("00000000-0000-7000-8000-{:012}", number);
        KnownLetter& letter = letters[id];
        letter.topic = kTopics[random_.below(std::size(kTopics))];
        letter.poison = random_.below(12) == 0;
        sql += fmt::format(
            "insert into dlq_messages (id, original_topic, max_retries, source_topic, source_partition, source_offset,"
            " record_timestamp_ms, record_key, record_value) values ('{}', '{}', {}, '{}', 0, {}, 0, cast('{}' as "
            "blob),"
            " x'7b7d');",
            id, letter.topic, letter.poison ? 3 : 1'000'000, kDeadTopic, number, id);
    }
    store_.run(sql + "commit");
}

std::vector<Outcome> RedriveWorld::publish(std::span<const Record> records) {
    store_.time().advance(std::chrono::milliseconds(random_.below(random_.below(4) == 0 ? 14'000 : 50)));
    std::vector<Outcome> outcomes;
    const std::size_t cut_at = chance(faults_.cut_off) ? random_.below(records.size() + 1) : records.size();
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (i == cut_at) away_ = true;
        outcomes.push_back(answer(records[i]));
    }
    return outcomes;
}

Outcome RedriveWorld::answer(const Record& record) {
    const std::string& id = record.key.value_or("");
    KnownLetter& letter = letters.at(id);
    if (letter.owned_until <= store_.time().millis()) violated("letter " + id + " is published after its lease");
    if (record.topic != letter.topic) violated("letter " + id + " goes to " + record.topic);
    if (away_ && !silent_) {
        return {.kind = OutcomeKind::retryable, .code = "BROKER_UNREACHABLE", .not_attempted = true};
    }
    if (gone_topics_.contains(letter.topic)) {
        return {.kind = OutcomeKind::retryable, .code = "UNKNOWN_TOPIC", .detail = "no topic " + letter.topic};
    }
    letter.tried_step = step;
    if (letter.poison && !away_) return {.kind = OutcomeKind::permanent, .code = "TOO_LARGE"};
    if (away_ || chance(faults_.unconfirmed)) {
        if (!letter.poison && random_.below(2) == 0) static_cast<void>(delivered(letter, id));
        return {.kind = OutcomeKind::ambiguous, .code = "TIMED_OUT"};
    }
    return delivered(letter, id);
}

Outcome RedriveWorld::delivered(KnownLetter& letter, const std::string& id) {
    note("arrived " + id);
    if (letter.arrived > 0) ++repeated;
    if (letter.arrived++ > 0 && !letter.in_doubt) violated("letter " + id + " arrives again, but was not in doubt");
    return {.kind = OutcomeKind::delivered, .receipt = letter.topic + "[0]@1"};
}

Result<void> RedriveWorld::check(Duration) {
    if (away_) return retryable("BROKER_UNREACHABLE", "switched off");
    return {};
}

void RedriveWorld::turn() {
    if (away_ ? healed_ || random_.below(8) == 0 : chance(faults_.broker_away)) {
        away_ = !away_;
        silent_ = random_.below(3) == 0;
        if (away_) ++outages;
    }
    for (const std::string_view name : kTopics) {
        const std::string topic(name);
        if (gone_topics_.contains(topic) ? healed_ || random_.below(10) == 0 : chance(faults_.topic_gone)) {
            if (gone_topics_.erase(topic) == 0) gone_topics_.insert(topic);
        }
    }
}

void RedriveWorld::heal() {
    healed_ = true;
    turn();
}

// --- what is known -------------------------------------------------------------------------------------------------

void RedriveWorld::note(std::string_view what) {
    for (const char c : what) trace = (trace ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    trace = (trace ^ static_cast<std::uint64_t>(store_.time().millis())) * 1099511628211ULL;
}

void RedriveWorld::violated(std::string what) {
    violations.push_back(fmt::format("step {}: {}", step, what));
}

std::int64_t RedriveWorld::left_over(const RedriveLife& life) {
    std::int64_t count = 0;
    for (const std::string& id : life.letters) {
        const KnownLetter& letter = letters.at(id);
        const bool held_by_others = std::ranges::any_of(letter.held_until, [&](const auto& held) {
            return held.first != life.name && held.second >= life.begun_at;
        });
        if (letter.tried_step >= life.begun_step || held_by_others) continue;
        count +=
            store_.number("select count(*) from dlq_messages where id = '" + id +
                          "' and status in ('PENDING', 'RETRYING') and retry_count < max_retries and not in_doubt");
    }
    return count;
}

// --- the store of one process --------------------------------------------------------------------------------------

namespace {

/// Fails, loses answers, and lets its process die. Reports to the world what really took effect.
class FaultyLetters final : public store::DeadLetters {
public:
    explicit FaultyLetters(RedriveWorld& world) : world_(world), real_(world.store().letters()) {}

    Result<std::optional<store::LetterDetail>> find(std::string_view id) override {
        return call<std::optional<store::LetterDetail>>("find", [&] { return real_.find(id); });
    }
    Result<std::vector<store::RetryClaim>> begin_retry(std::span<const std::string> ids,
                                                       const store::RetryRequest& request) override {
        return call<std::vector<store::RetryClaim>>("begin_retry", [&] {
            auto claims = real_.begin_retry(ids, request);
            if (claims) begun(*claims, request, "");
            return claims;
        });
    }
    Result<std::int64_t> end_retry(std::string_view owner, std::string_view actor,
                                   std::span<const store::RetryEnd> ends) override {
        return call<std::int64_t>("end_retry", [&] {
            const auto given = sabotaged(ends);
            auto applied = real_.end_retry(owner, actor, given);
            if (applied) ended(owner, given);
            return applied;
        });
    }
    Result<std::optional<store::Redrive>> open_redrive(std::string_view topic, std::string_view owner,
                                                       std::string_view actor, Duration lease) override {
        return call<std::optional<store::Redrive>>("open_redrive", [&] {
            auto redrive = real_.open_redrive(topic, owner, actor, lease);
            if (redrive && *redrive) opened(std::string(topic), owner);
            return redrive;
        });
    }
    Result<std::vector<store::RetryClaim>> next_of_redrive(std::string_view topic, const store::RetryRequest& request,
                                                           const store::RedrivePage& page) override {
        return call<std::vector<store::RetryClaim>>("next_of_redrive", [&] {
            auto claims = real_.next_of_redrive(topic, request, page);
            if (claims) begun(*claims, request, world_.redrives.at(std::string(topic)).name);
            return claims;
        });
    }
    Result<std::int64_t> end_of_redrive_page(std::string_view topic, std::string_view owner, std::string_view actor,
                                             std::span<const store::RetryEnd> ends) override {
        return call<std::int64_t>("end_of_redrive_page", [&] {
            const auto given = sabotaged(ends);
            auto applied = real_.end_of_redrive_page(topic, owner, actor, given);
            if (!applied) return applied;
            ended(owner, given);
            const auto at = world_.redrives.find(std::string(topic));
            if (at == world_.redrives.end() || at->second.owner != owner) return applied;
            RedriveLife& life = at->second;
            const bool all = *applied == static_cast<std::int64_t>(given.size());
            life.counts_known = life.counts_known && (all || *applied == 0);
            for (const store::RetryEnd& end : given) {
                life.published += all && end.result == store::RetryResult::published ? 1 : 0;
                life.failed += all && end.result == store::RetryResult::failed ? 1 : 0;
                life.in_doubt += all && end.result == store::RetryResult::in_doubt ? 1 : 0;
            }
            return applied;
        });
    }
    Result<store::Redrive> close_redrive(std::string_view topic, std::string_view owner) override {
        return call<store::Redrive>("close_redrive", [&] {
            auto redrive = real_.close_redrive(topic, owner);
            if (redrive) closed(std::string(topic), *redrive);
            return redrive;
        });
    }
    Result<void> release_redrive(std::string_view topic, std::string_view owner) override {
        return call<void>("release_redrive", [&] { return real_.release_redrive(topic, owner); });
    }
    Result<std::vector<store::Redrive>> abandoned_redrives() override {
        return call<std::vector<store::Redrive>>("abandoned_redrives", [&] { return real_.abandoned_redrives(); });
    }

    // Not called by redrives of Kafka's letters.
    Result<std::int64_t> store(std::span<const store::NewLetter>) override { return unused(); }
    Result<store::LetterPage> list(const store::LetterQuery&) override { return unused(); }
    Result<std::vector<store::LetterAudit>> audit(std::string_view, std::int32_t) override { return unused(); }
    Result<std::vector<store::TopicCounts>> topics() override { return unused(); }
    Result<std::vector<store::Destination>> destinations(std::string_view, std::int32_t) override { return unused(); }
    Result<std::vector<std::string>> return_to_lane(std::string_view, std::string_view,
                                                    std::span<const std::string>) override {
        return unused();
    }
    Result<std::optional<store::Letter>> mark_dead(std::string_view, std::string_view) override { return unused(); }
    Result<std::optional<store::Letter>> revive(std::string_view, std::string_view) override { return unused(); }
    Result<store::Removal> remove(std::string_view, std::string_view) override { return unused(); }
    Result<std::int64_t> purge(store::LetterStatus, Duration, std::int32_t, std::string_view) override {
        return unused();
    }
    Result<std::int64_t> purge_history(Duration, std::int32_t) override { return unused(); }

private:
    static Failure unused() { return bad_argument("not simulated"); }

    template <typename T, typename Body>
    Result<T> call(std::string_view name, Body body) {
        world_.note(name);
        const RedriveFaults& faults = world_.faults();
        if (world_.chance(faults.dies)) {
            if (world_.random().below(2) == 0) static_cast<void>(body());
            ++world_.deaths;
            throw ProcessDied{};
        }
        if (world_.chance(faults.store_fails)) return retryable("db_unreachable", "switched off");
        if (world_.chance(faults.answer_lost)) {
            if (world_.random().below(2) == 0) static_cast<void>(body());
            ++world_.lost_answers;
            return ambiguous("db_error", "the answer was lost");
        }
        return body();
    }

    void begun(const std::vector<store::RetryClaim>& claims, const store::RetryRequest& request,
               const std::string& redrive) {
        const std::int64_t now = world_.store().time().millis();
        for (const store::RetryClaim& claim : claims) {
            if (claim.verdict != store::RetryVerdict::begun) continue;
            KnownLetter& letter = world_.letters.at(claim.id);
            if (!letter.owner.empty() && letter.owned_until > now) {
                world_.violated("letter " + claim.id + " has two owners");
            }
            letter.in_doubt = claim.taken_over || (claim.letter && claim.letter->letter.in_doubt);
            letter.owner = request.owner;
            letter.owner_redrive = redrive;
            letter.owned_until = now + std::chrono::duration_cast<std::chrono::milliseconds>(request.lease).count();
            letter.held_until[redrive] = letter.owned_until;
        }
    }

    void ended(std::string_view owner, const std::vector<store::RetryEnd>& ends) {
        for (const store::RetryEnd& end : ends) {
            KnownLetter& letter = world_.letters.at(end.id);
            if (letter.owner != owner) continue;
            letter.owner.clear();
            letter.held_until[letter.owner_redrive] = world_.store().time().millis();
            if (world_.sabotage() != RedriveSabotage::not_tried_counts_as_tried) continue;
            if (end.result != store::RetryResult::not_tried) continue;
            world_.store().run(
                "update dlq_messages set last_retry_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') where id = '" + end.id +
                "'");
        }
    }

    void opened(const std::string& topic, std::string_view owner) {
        const auto [at, is_new] = world_.redrives.try_emplace(topic);
        RedriveLife& life = at->second;
        const std::string before = std::exchange(life.owner, std::string(owner));
        if (!is_new) {  // it was resumed: the letters of its former owner are free
            for (auto& [id, letter] : world_.letters) {
                if (before != owner && letter.owner == before) letter.owned_until = world_.store().time().millis();
            }
            return;
        }
        life.name = fmt::format("{}#{}", topic, ++world_.lives);
        life.begun_step = world_.step;
        life.begun_at = world_.store().time().millis();
        for (const auto& [id, letter] : world_.letters) {
            if (topic == kDeadTopic || topic == letter.topic) life.letters.insert(id);
        }
    }

    void closed(const std::string& topic, const store::Redrive& redrive) {
        const RedriveLife life = world_.redrives.at(topic);
        world_.redrives.erase(topic);
        world_.closed[topic] = life;
        if (!life.counts_known) return;
        if (redrive.published != life.published || redrive.failed != life.failed || redrive.in_doubt != life.in_doubt) {
            world_.violated(fmt::format("the redrive of {} counts {}, {}, {}; there were {}, {}, {}", topic,
                                        redrive.published, redrive.failed, redrive.in_doubt, life.published,
                                        life.failed, life.in_doubt));
        }
    }

    [[nodiscard]] std::vector<store::RetryEnd> sabotaged(std::span<const store::RetryEnd> ends) const {
        std::vector<store::RetryEnd> given(ends.begin(), ends.end());
        if (world_.sabotage() != RedriveSabotage::doubt_is_forgotten) return given;
        for (store::RetryEnd& end : given) {
            if (end.result == store::RetryResult::in_doubt) end.result = store::RetryResult::failed;
        }
        return given;
    }

    RedriveWorld& world_;
    store::DeadLetters& real_;
};

}  // namespace

std::unique_ptr<store::DeadLetters> faulty_letters(RedriveWorld& world) {
    return std::make_unique<FaultyLetters>(world);
}

}  // namespace deliverd::simulation
