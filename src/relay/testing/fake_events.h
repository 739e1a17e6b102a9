// An event table in memory that keeps the promises of store/events.h, and a log of what was done to it: for the relay's
// own tests and its simulator, which need faults that no server gives on demand. The real stores are held to the same
// promises by the conformance suite.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/events.h"

namespace deliverd::relay {

class FakeEvents final : public store::EventOutbox {
public:
    struct Row {
        std::string aggregate;
        std::int32_t shard = 0;
        bool published = false;
        bool dead = false;
        std::int32_t failures = 0;
        Duration due{};
        Duration created{};
        Duration committed{};
        std::uint64_t transaction = 0;  // that writes it; 0: it has no number yet
        [[nodiscard]] bool open() const { return !published && !dead; }
    };
    struct Shard {
        std::string owner;
        std::int64_t token = 0;
        Duration expires{};
    };
    struct Applied {
        std::int64_t id;
        store::SettleKind kind;
        bool fenced_off;  // by a relay that does not hold the shard: must never be
    };
    struct Options {
        std::int32_t shards = 8;
        bool block_behind_dead = false;
        /// Rows behind a failed one are kept back until that has ended, also when it is due. The contract leaves it
        /// open.
        bool keeps_back_behind_due = true;
        // A store that breaks its promise, to see that this is noticed.
        bool without_fence = false;
        bool hides_writers = false;  // says that no transaction is open
        bool uuids = false;
        bool typed = false;  // an event's type is its aggregate's name without the digits
    };

    FakeEvents(Options options, std::function<Duration()> database_now)
        : options_(options), database_now_(std::move(database_now)) {
        for (std::int32_t shard = 0; shard < options.shards; ++shard) shards_[shard];
    }

    // --- writers ---------------------------------------------------------------------------------------------------

    /// A transaction that wrote something and has its number: others see that it is open.
    std::uint64_t begin_transaction() {
        const std::lock_guard lock(mutex_);
        transactions_[next_transaction_];
        return next_transaction_++;
    }
    /// An id is given out; nobody sees yet who has it. `begun`: how long ago its transaction began.
    std::int64_t draw(const std::string& aggregate, Duration begun = {}) {
        const std::lock_guard lock(mutex_);
        const std::int64_t id = ++last_id_;
        Row row;
        row.aggregate = aggregate;
        row.shard = shard_of(aggregate);
        row.created = database_now_() - begun;
        uncommitted_.emplace(id, std::move(row));
        return id;
    }
    /// The row with the id that was drawn is there when that transaction is committed.
    void write(std::int64_t id, std::uint64_t transaction) {
        const std::lock_guard lock(mutex_);
        uncommitted_.at(id).transaction = transaction;
        transactions_.at(transaction).push_back(id);
        if (!asleep_.empty()) notifies_.insert(transaction);
    }
    /// A transaction that writes one event: the id is given now, the row is there after commit().
    std::int64_t begin(const std::string& aggregate) {
        const std::int64_t id = draw(aggregate);
        write(id, begin_transaction());
        return id;
    }
    void commit(std::int64_t id) { end_transaction(uncommitted_.at(id).transaction, true); }
    void end_transaction(std::uint64_t transaction, bool committed) {
        std::function<void()> notify;
        {
            const std::lock_guard lock(mutex_);
            for (const std::int64_t id : transactions_.at(transaction)) {
                auto row = uncommitted_.extract(id);
                if (!committed) continue;
                row.mapped().committed = database_now_();
                add_open(id, row.mapped());
                rows_.insert(std::move(row));
            }
            transactions_.erase(transaction);
            if (notifies_.erase(transaction) > 0 && committed) notify = on_event_;
        }
        if (notify) notify();
    }
    std::int64_t add(const std::string& aggregate) {
        const std::int64_t id = begin(aggregate);
        commit(id);
        return id;
    }

    /// A dead event is returned to its lane.
    void return_dead(std::int64_t id) {
        const std::lock_guard lock(mutex_);
        Row& row = rows_.at(id);
        row.dead = false;
        row.failures = 1;
        row.due = {};
        lines_.at(row.aggregate).dead.erase(id);
        lines_.at(row.aggregate).failed.insert(id);
        add_open(id, row);
    }

    // --- the port --------------------------------------------------------------------------------------------------

    Result<store::EventBatch> read(const store::EventRead& request) override {
        const std::lock_guard lock(mutex_);
        ++reads;
        store::EventBatch batch;
        const std::set<std::int32_t> shards(request.shards.begin(), request.shards.end());
        read_due(request, shards, batch);
        batch.due_cut = cut(request, 0, batch);
        const std::size_t due = batch.rows.size();
        for (const store::EventFollow& follow : request.follow) read_follow(request, follow, shards, batch);
        batch.follow_cut = cut(request, due, batch);
        const std::size_t followed = batch.rows.size();
        std::int32_t left = request.limit;
        for (auto id = open_.upper_bound(number(request.after)); id != open_.end() && left > 0; ++id) {
            if (request.up_to && *id > number(request.up_to)) break;
            const Row& row = rows_.at(*id);
            if (!shards.contains(row.shard) || kept_back(*id, row, options_.keeps_back_behind_due)) continue;
            if (options_.keeps_back_behind_due && row.failures > 0) continue;
            batch.rows.push_back(describe(*id, row, store::EventOrigin::forward));
            --left;
        }
        batch.forward_cut = cut(request, followed, batch);
        if (!options_.uuids && (request.limit > 0 || request.end_above)) tell_writers(request, batch);
        return batch;
    }

    Result<std::vector<store::EventSettled>> settle(std::string_view owner,
                                                    std::span<const store::EventSettlement> settlements) override {
        const std::lock_guard lock(mutex_);
        ++settles;
        std::vector<store::EventSettled> answers;
        answers.reserve(settlements.size());
        for (const store::EventSettlement& settlement : settlements) answers.push_back(settle_one(owner, settlement));
        return answers;
    }

    Result<store::ShardShare> tend(std::string_view owner, Duration lease) override {
        const std::lock_guard lock(mutex_);
        const Duration now = database_now_();
        relays_[std::string(owner)] = now + lease;
        std::erase_if(relays_, [&](const auto& relay) { return relay.second <= now; });
        store::ShardShare share;
        share.relays = static_cast<std::int32_t>(relays_.size());
        const auto place = static_cast<std::int32_t>(std::distance(relays_.begin(), relays_.find(std::string(owner))));
        share.share = options_.shards / share.relays + (place < options_.shards % share.relays ? 1 : 0);
        std::int32_t held = 0;
        for (auto& [number, shard] : shards_) {
            if (shard.owner != owner) continue;
            shard.expires = now + lease;
            ++held;
        }
        for (auto& [number, shard] : shards_) {
            const bool free = shard.owner.empty() || shard.expires <= now;
            if (!free || held >= share.share) continue;
            shard = {std::string(owner), shard.token + 1, now + lease};
            ++held;
        }
        for (const auto& [number, shard] : shards_) {
            if (shard.owner == owner) share.held.push_back({number, shard.token});
        }
        return share;
    }

    Result<void> release(std::string_view owner, std::span<const store::ShardLease> leases) override {
        const std::lock_guard lock(mutex_);
        for (const store::ShardLease& lease : leases) {
            Shard& shard = shards_.at(lease.shard);
            if (shard.owner == owner && shard.token == lease.token) shard.owner.clear();
        }
        return {};
    }

    Result<void> leave(std::string_view owner) override {
        const std::lock_guard lock(mutex_);
        relays_.erase(std::string(owner));
        for (auto& [number, shard] : shards_) {
            if (shard.owner == owner) shard.owner.clear();
        }
        return {};
    }

    Result<void> set_asleep(std::string_view owner, bool asleep) override {
        const std::lock_guard lock(mutex_);
        if (asleep) {
            asleep_.insert(std::string(owner));
        } else {
            asleep_.erase(std::string(owner));
        }
        return {};
    }

    /// Calls from the writer's thread. One listener.
    std::unique_ptr<store::EventListener> listen(std::function<void()> on_event) override {
        const std::lock_guard lock(mutex_);
        on_event_ = std::move(on_event);
        return std::make_unique<Listener>(*this);
    }

    Result<double> lag_seconds() override { return 0.0; }
    Result<store::RowCounts> counts() override {
        const std::lock_guard lock(mutex_);
        store::RowCounts counts;
        for (const auto& [id, row] : rows_) {
            (row.published ? counts.sent : row.dead ? counts.dead : counts.pending) += 1;
        }
        return counts;
    }
    Result<void> ping(Duration) override { return {}; }
    Result<std::int64_t> remove_published(Duration, std::int32_t) override { return 0; }
    Result<std::vector<store::Finding>> inspect() override { return std::vector<store::Finding>{}; }

    // --- what tests look at ----------------------------------------------------------------------------------------

    [[nodiscard]] std::size_t asleep() {
        const std::lock_guard lock(mutex_);
        return asleep_.size();
    }
    [[nodiscard]] std::map<std::int32_t, Shard> shards() {
        const std::lock_guard lock(mutex_);
        return shards_;
    }
    /// Only while no relay is at work.
    [[nodiscard]] const std::map<std::int64_t, Row>& rows() const { return rows_; }

    std::string body;  // of every message
    std::vector<std::pair<std::string, std::string>> headers;
    std::vector<Applied> applied;
    bool keep_applied = true;
    std::uint64_t fenced = 0;
    std::uint64_t reads = 0;
    std::uint64_t settles = 0;

private:
    class Listener final : public store::EventListener {
    public:
        explicit Listener(FakeEvents& events) : events_(events) {}
        ~Listener() override {
            const std::lock_guard lock(events_.mutex_);
            events_.on_event_ = nullptr;
        }

    private:
        FakeEvents& events_;
    };

    /// The rows of an aggregate that others wait behind.
    struct Line {
        std::set<std::int64_t> open;
        std::set<std::int64_t> failed;  // and open
        std::set<std::int64_t> dead;
    };

    [[nodiscard]] std::int32_t shard_of(std::string_view aggregate) const {
        std::uint32_t hash = 2'166'136'261U;  // FNV-1a: the same everywhere, so that a seed replays
        for (const char c : aggregate) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
        return static_cast<std::int32_t>(hash % static_cast<std::uint32_t>(options_.shards));
    }

    /// Ids are numbers; as uuids they are numbers with zeros in front, so that their text has their order.
    [[nodiscard]] store::RowId text(std::int64_t id) const {
        std::string digits = std::to_string(id);
        return options_.uuids ? std::string(12 - digits.size(), '0') + digits : digits;
    }
    static std::int64_t number(const std::optional<store::RowId>& id) { return id ? std::stoll(*id) : 0; }

    void tell_writers(const store::EventRead& request, store::EventBatch& batch) const {
        store::OpenWriters& writers = batch.writers.emplace();
        writers.next = next_transaction_;
        if (!options_.hides_writers) {
            for (const auto& [transaction, ids] : transactions_) writers.transactions.push_back(transaction);
        }
        if (request.end_above && !rows_.empty() && rows_.rbegin()->first > *request.end_above) {
            batch.end = rows_.rbegin()->first;
        }
    }

    void add_open(std::int64_t id, const Row& row) {
        open_.insert(id);
        lines_[row.aggregate].open.insert(id);
    }

    [[nodiscard]] bool kept_back(std::int64_t id, const Row& row, bool also_behind_due) const {
        const Line& line = lines_.at(row.aggregate);
        if (options_.block_behind_dead && !line.dead.empty() && *line.dead.begin() < id) return true;
        const Duration now = database_now_();
        for (const std::int64_t failed : line.failed) {
            if (failed > id) return false;
            if (rows_.at(failed).due > now) return true;
            if (also_behind_due && failed < id) return true;
        }
        return false;
    }

    /// Leaves out what comes after the byte limit among the rows from `first` on.
    static bool cut(const store::EventRead& request, std::size_t first, store::EventBatch& batch) {
        std::int64_t bytes = 0;
        for (std::size_t i = first; i < batch.rows.size(); ++i) {
            bytes += static_cast<std::int64_t>(bytes_in_memory(batch.rows[i].message));
            if (bytes < request.byte_limit) continue;
            batch.rows.resize(i + 1);
            return true;
        }
        return false;
    }

    void read_due(const store::EventRead& request, const std::set<std::int32_t>& shards, store::EventBatch& batch) {
        std::vector<std::pair<Duration, std::int64_t>> due;
        for (const auto& [aggregate, line] : lines_) {
            if (line.failed.empty()) continue;
            const std::int64_t id = *line.failed.begin();
            const Row& row = rows_.at(id);
            if (!shards.contains(row.shard) || row.due > database_now_() || kept_back(id, row, false)) continue;
            due.emplace_back(row.due, id);
        }
        std::sort(due.begin(), due.end());
        if (due.size() > static_cast<std::size_t>(request.due_limit)) {
            due.resize(static_cast<std::size_t>(request.due_limit));
        }
        std::sort(due.begin(), due.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
        for (const auto& [at, id] : due) batch.rows.push_back(describe(id, rows_.at(id), store::EventOrigin::due));
    }

    void read_follow(const store::EventRead& request, const store::EventFollow& follow,
                     const std::set<std::int32_t>& shards, store::EventBatch& batch) {
        const auto line = lines_.find(follow.aggregate_id);
        if (line == lines_.end()) return;
        std::int32_t left = request.follow_limit;
        const auto& open = line->second.open;
        for (auto id = open.upper_bound(number(follow.after)); id != open.end() && left > 0; ++id, --left) {
            const Row& row = rows_.at(*id);
            if (!shards.contains(row.shard) || kept_back(*id, row, options_.keeps_back_behind_due)) return;
            batch.rows.push_back(describe(*id, row, store::EventOrigin::follow));
        }
    }

    [[nodiscard]] store::EventRow describe(std::int64_t id, const Row& row, store::EventOrigin origin) const {
        store::EventRow event;
        event.row_id = text(id);
        event.sequence = options_.uuids ? 0 : id;
        event.shard = row.shard;
        event.origin = origin;
        event.age_seconds = to_seconds(database_now_() - row.created);
        event.message.id = event.sequence;
        event.message.message_id = "event-" + std::to_string(id);
        event.message.key = row.aggregate;
        event.message.type =
            options_.typed ? row.aggregate.substr(0, row.aggregate.find_first_of("0123456789")) : "Happened";
        event.message.body = body;
        event.message.headers = headers;
        event.message.failures = row.failures;
        return event;
    }

    store::EventSettled settle_one(std::string_view owner, const store::EventSettlement& settlement) {
        const Shard& shard = shards_.at(settlement.lease.shard);
        const bool fenced_off = shard.owner != owner || shard.token != settlement.lease.token;
        if (fenced_off && !options_.without_fence) {
            ++fenced;
            return store::EventSettled::fenced;
        }
        const std::int64_t id = number(settlement.row_id);
        Row& row = rows_.at(id);
        if (!row.open() || row.failures != settlement.settlement.failures_before) return store::EventSettled::conflict;
        Line& line = lines_.at(row.aggregate);
        if (keep_applied) applied.push_back({id, settlement.settlement.kind, fenced_off});
        switch (settlement.settlement.kind) {
            case store::SettleKind::sent:
            case store::SettleKind::duplicate:
                row.published = true;
                break;
            case store::SettleKind::dead:
                row.dead = true;
                ++row.failures;
                line.dead.insert(id);
                break;
            case store::SettleKind::retry:
                ++row.failures;
                row.due = database_now_() + settlement.settlement.delay;
                line.failed.insert(id);
                return store::EventSettled::applied;
        }
        open_.erase(id);
        line.open.erase(id);
        line.failed.erase(id);
        return store::EventSettled::applied;
    }

    const Options options_;
    const std::function<Duration()> database_now_;
    std::mutex mutex_;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, Row> rows_;
    std::map<std::int64_t, Row> uncommitted_;
    std::uint64_t next_transaction_ = 1;
    std::map<std::uint64_t, std::vector<std::int64_t>> transactions_;  // open ones, and the rows they wrote
    std::set<std::int64_t> open_;
    std::map<std::string, Line> lines_;
    std::map<std::int32_t, Shard> shards_;
    std::map<std::string, Duration> relays_;
    std::set<std::string> asleep_;
    std::set<std::uint64_t> notifies_;  // transactions that wrote while someone slept
    std::function<void()> on_event_;
};

}  // namespace deliverd::relay
