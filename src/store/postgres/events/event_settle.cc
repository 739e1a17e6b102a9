#include "store/postgres/events/event_settle.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "base/uuid.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_ids.h"
#include "store/postgres/events/statements.h"
#include "store/settle_batch.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::string_view kLockNotAvailable = "55P03";

bool event_given_up(const EventSettlement& settlement) {
    return settlement.settlement.kind == SettleKind::dead;
}

bool failed(const EventSettlement& settlement) {
    return settlement.settlement.kind == SettleKind::retry || event_given_up(settlement);
}

/// One settlement of the batch, with its id as the database takes it.
struct Entry {
    std::int64_t number = 0;  // 0 where ids are uuids
    std::string_view uuid;    // empty where ids are numbers
    std::size_t index = 0;
    std::int32_t lease = 0;  // number of its lease in the batch, from 1

    [[nodiscard]] auto key() const { return std::pair(number, uuid); }
};

/// The batch in order of its ids, each id once: a second settlement of a row finds it settled already.
class Batch {
public:
    static Result<Batch> of(std::span<const EventSettlement> settlements, IdKind ids) {
        Batch batch(settlements, ids);
        batch.entries_.reserve(settlements.size());
        for (std::size_t i = 0; i < settlements.size(); ++i) {
            Entry entry;
            entry.index = i;
            const RowId& id = settlements[i].row_id;
            const auto number = ids == IdKind::number ? parse_number(id) : std::optional<std::int64_t>(0);
            if (ids == IdKind::uuid) entry.uuid = id;
            if (!number || (ids == IdKind::uuid && (id.empty() || canonical_uuid(id) != id))) {
                return permanent(codes::kBadArgument, "row_id is not an id of this table");
            }
            entry.number = *number;
            batch.entries_.push_back(entry);
        }
        std::ranges::sort(batch.entries_, {}, [](const Entry& e) { return std::tuple(e.number, e.uuid, e.index); });
        const auto rest = std::ranges::unique(batch.entries_, {}, &Entry::key);
        batch.entries_.erase(rest.begin(), rest.end());
        batch.number_leases();
        return batch;
    }

    [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

    /// Lane, owner, leases, and of the settlements that failed, or of the others, ids, numbers of leases and failures;
    /// of those that failed also notes, delays in seconds, 1 where it is given up; and how many there are.
    [[nodiscard]] Params params(std::string_view lane, std::string_view owner, bool of_failed) const {
        std::vector<std::int32_t> leases;
        std::vector<std::int32_t> failures;
        std::vector<std::optional<std::string>> notes;
        std::vector<double> delays;
        std::vector<std::int32_t> dead;
        const auto chosen = [&](const EventSettlement& settlement) { return failed(settlement) == of_failed; };
        for (const Entry& entry : entries_) {
            const EventSettlement& settlement = settlements_[entry.index];
            if (!chosen(settlement)) continue;
            leases.push_back(entry.lease);
            failures.push_back(settlement.settlement.failures_before);
            if (!of_failed) continue;
            notes.push_back(settle_note(settlement.settlement));
            delays.push_back(settle_delay_seconds(settlement.settlement));
            dead.push_back(event_given_up(settlement) ? 1 : 0);
        }
        Params out(lane, owner, shards_, tokens_);
        add_ids(out, chosen).int32_array(leases).int32_array(failures);
        if (of_failed) out.text_array(notes).float64_array(delays).int32_array(dead);
        return out.int32(static_cast<std::int32_t>(leases.size()));
    }

    /// Lane, owner, and the ids of those that are given up.
    [[nodiscard]] Params letter_params(std::string_view lane, std::string_view owner) const {
        Params out(lane, owner);
        return add_ids(out, event_given_up);
    }

private:
    Batch(std::span<const EventSettlement> settlements, IdKind ids) : settlements_(settlements), ids_(ids) {}

    void number_leases() {
        std::map<std::pair<std::int32_t, std::int64_t>, std::int32_t> numbers;  // in the order of the shards
        const auto lease_of = [&](const Entry& entry) {
            const ShardLease& lease = settlements_[entry.index].lease;
            return std::pair(lease.shard, lease.token);
        };
        for (const Entry& entry : entries_) numbers.emplace(lease_of(entry), 0);
        for (auto& [lease, number] : numbers) {
            shards_.push_back(lease.first);
            tokens_.push_back(lease.second);
            number = static_cast<std::int32_t>(shards_.size());
        }
        for (Entry& entry : entries_) entry.lease = numbers.at(lease_of(entry));
    }
    template <typename Chosen>
    Params& add_ids(Params& out, Chosen chosen) const {
        std::vector<std::int64_t> numbers;
        std::vector<std::optional<std::string_view>> uuids;
        for (const Entry& entry : entries_) {
            if (!chosen(settlements_[entry.index])) continue;
            numbers.push_back(entry.number);
            uuids.emplace_back(entry.uuid);
        }
        return ids_ == IdKind::number ? out.int64_array(numbers) : out.text_array(uuids);
    }

    std::span<const EventSettlement> settlements_;
    IdKind ids_;
    std::vector<Entry> entries_;
    std::vector<std::int32_t> shards_;
    std::vector<std::int64_t> tokens_;
};

/// What a settling statement answered.
class Settled {
public:
    Settled(const PGresult* result, IdKind ids) {
        for (int row = 0; row < PQntuples(result); ++row) {
            if (!null_at(result, row, 0)) {
                (null_at(result, row, 1) ? applied_ : locked_).add(result, row, ids);
            } else if (const std::int32_t lease = int32_at(result, row, 1); lease == 0) {
                all_ = true;
            } else {
                held_.push_back(lease);
            }
        }
        applied_.sort();
        locked_.sort();
    }
    [[nodiscard]] EventSettled of(const Entry& entry) const {
        if (all_ || applied_.has(entry)) return EventSettled::applied;
        if (locked_.has(entry)) return EventSettled::locked;
        const bool held = std::ranges::find(held_, entry.lease) != held_.end();
        return held ? EventSettled::conflict : EventSettled::fenced;
    }

private:
    class Ids {
    public:
        void add(const PGresult* result, int row, IdKind ids) {
            if (ids == IdKind::number) {
                numbers_.push_back(int64_at(result, row, 0));
            } else {
                uuids_.push_back(text_at(result, row, 0));
            }
        }
        void sort() {
            std::ranges::sort(numbers_);
            std::ranges::sort(uuids_);
        }
        [[nodiscard]] bool has(const Entry& entry) const {
            return entry.uuid.empty() ? std::ranges::binary_search(numbers_, entry.number)
                                      : std::ranges::binary_search(uuids_, entry.uuid);
        }

    private:
        std::vector<std::int64_t> numbers_;
        std::vector<std::string_view> uuids_;  // in the result
    };

    bool all_ = false;
    Ids applied_;
    Ids locked_;
    std::vector<std::int32_t> held_;  // numbers of leases
};

Step brief_waits() {
    static const Statement kBrief{"events_brief_lock_waits", events::sql::brief_lock_waits};
    static const Params kTime(kSettleLockTimeout);
    return Step{&kBrief, &kTime};
}

}  // namespace

Result<std::vector<EventSettled>> settle_events(Connection& connection, const EventStatements& sql,
                                                std::string_view lane, std::string_view owner,
                                                std::span<const EventSettlement> settlements) {
    ASSERT(!settlements.empty());
    TRY_ASSIGN(auto batch, Batch::of(settlements, sql.ids));
    const bool some_failed = std::ranges::any_of(settlements, failed);
    const bool some_sent = !std::ranges::all_of(settlements, failed);
    const Params sent_params = some_sent ? batch.params(lane, owner, false) : Params();
    const Params failed_params = some_failed ? batch.params(lane, owner, true) : Params();
    const bool some_dead = std::ranges::any_of(settlements, event_given_up);
    const Params letter_params = some_dead ? batch.letter_params(lane, owner) : Params();
    // Both know all leases of the batch: they are locked in one order whichever comes first.
    const auto run = [&](const SettleStatements& with, bool briefly) {
        std::vector<Step> steps;
        if (briefly) steps.push_back(brief_waits());
        if (some_sent) steps.push_back(Step{&with.sent, &sent_params});
        if (some_failed) steps.push_back(Step{&with.failed, &failed_params});
        steps.back().point = "store.during_settle";
        if (some_dead) {
            steps.push_back(Step{&sql.keep_table, &sql.table_params});
            steps.push_back(Step{&sql.letters, &letter_params});
        }
        return connection.run(steps, Effect::write, connection.statement_deadline());
    };
    const bool met_lock = std::ranges::any_of(settlements, &EventSettlement::met_lock);
    auto results = met_lock ? run(sql.settle_past_locks, false) : run(sql.settle, true);
    if (!results && !met_lock && connection.usable() && connection.refused_with() == kLockNotAvailable) {
        results = run(sql.settle_past_locks, false);
    }
    if (!results) return Failure(std::move(results.error()));

    const std::size_t end = results->size() - (some_dead ? 2 : 0);
    const Settled of_sent((*results)[end - (some_sent && some_failed ? 2 : 1)].get(), sql.ids);
    const Settled of_failed((*results)[end - 1].get(), sql.ids);
    // What is not among the entries is a second settlement of its row.
    std::vector<EventSettled> answers(settlements.size(), EventSettled::conflict);
    for (const Entry& entry : batch.entries()) {
        answers[entry.index] = (failed(settlements[entry.index]) ? of_failed : of_sent).of(entry);
    }
    return answers;
}

}  // namespace deliverd::store::postgres
