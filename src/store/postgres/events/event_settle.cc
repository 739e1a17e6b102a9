#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "base/uuid.h"
#include "store/outbox_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_outbox.h"
#include "store/postgres/events/statements.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::string_view kLockNotAvailable = "55P03";

bool given_up(const EventSettlement& settlement) {
    return settlement.settlement.kind == SettleKind::dead;
}

bool is_failure(const EventSettlement& settlement) {
    return failed(settlement.settlement);
}

/// One settlement of the batch, with its id as the database takes it.
struct Entry {
    std::int64_t number = 0;  // 0 where ids are uuids
    std::string_view uuid;    // empty where ids are numbers
    std::size_t index = 0;
    std::int32_t lease = 0;  // number of its lease in the batch, from 1

    [[nodiscard]] auto key() const { return std::pair(number, uuid); }
    /// As the settling statements answer it.
    [[nodiscard]] std::string id() const { return uuid.empty() ? std::to_string(number) : std::string(uuid); }
};

Result<Entry> entry_of(const RowId& id, std::size_t index, IdKind ids) {
    Entry entry;
    entry.index = index;
    bool fits = false;
    if (ids == IdKind::number) {
        const auto number = sequence_of(id);
        fits = number.has_value();
        entry.number = number.value_or(0);
    } else {
        // Only the canonical text is equal to what the database answers.
        fits = !id.empty() && canonical_uuid(id) == id;
        entry.uuid = id;
    }
    if (!fits) return bad_argument("row_id is not an id of this table");
    return entry;
}

/// The batch in order of its ids, so that overlapping batches lock rows in one order. Each id once: a second settlement
/// of a row finds it settled already.
class Batch {
public:
    static Result<Batch> of(std::span<const EventSettlement> settlements, IdKind ids) {
        Batch batch(settlements, ids);
        batch.entries_.reserve(settlements.size());
        for (std::size_t i = 0; i < settlements.size(); ++i) {
            TRY_ASSIGN(const Entry entry, entry_of(settlements[i].row_id, i, ids));
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
    /// of those that failed also notes, delays in seconds, 1 if it is given up; and how many there are.
    [[nodiscard]] Params params(std::string_view lane, std::string_view owner, bool of_failed) const {
        const auto batch = chosen([&](const EventSettlement& one) { return is_failure(one) == of_failed; });
        const auto of_each = [&](auto get) {
            return column(batch, [&](const Entry& entry) { return get(settlements_[entry.index].settlement); });
        };
        Params out(lane, owner, shards_, tokens_);
        add_ids(out, batch).array(column(batch, &Entry::lease));
        out.array(of_each([](const Settlement& one) { return one.failures_before; }));
        if (of_failed) {
            out.array(of_each(settle_note)).array(of_each(settle_delay_seconds));
            out.array(of_each([](const Settlement& one) { return one.kind == SettleKind::dead ? 1 : 0; }));
        }
        return out.int32(static_cast<std::int32_t>(batch.size()));
    }

    /// Lane, owner, and the ids of those that are given up.
    [[nodiscard]] Params letter_params(std::string_view lane, std::string_view owner) const {
        Params out(lane, owner);
        return add_ids(out, chosen(given_up));
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

    template <typename Which>
    [[nodiscard]] std::vector<Entry> chosen(Which which) const {
        std::vector<Entry> out;
        std::ranges::copy_if(entries_, std::back_inserter(out),
                             [&](const Entry& entry) { return which(settlements_[entry.index]); });
        return out;
    }
    Params& add_ids(Params& out, const std::vector<Entry>& batch) const {
        return ids_ == IdKind::number ? out.array(column(batch, &Entry::number))
                                      : out.array(column(batch, &Entry::uuid));
    }

    std::span<const EventSettlement> settlements_;
    IdKind ids_;
    std::vector<Entry> entries_;
    std::vector<std::int32_t> shards_;
    std::vector<std::int64_t> tokens_;
};

/// What a settling statement answered (EventStatements).
class Settled {
public:
    explicit Settled(const PGresult* result) {
        for (const Row& row : rows_of(result)) {
            if (!row.null(0)) {
                (row.null(1) ? applied_ : locked_).emplace(row.text(0));
            } else if (const auto lease = row.get<std::int32_t>(1); lease == 0) {
                all_ = true;
            } else {
                held_.insert(lease);
            }
        }
    }
    [[nodiscard]] EventSettled of(const Entry& entry) const {
        if (all_ || applied_.contains(entry.id())) return EventSettled::applied;
        if (locked_.contains(entry.id())) return EventSettled::locked;
        return held_.contains(entry.lease) ? EventSettled::conflict : EventSettled::fenced;
    }

private:
    bool all_ = false;
    std::set<std::string> applied_;
    std::set<std::string> locked_;
    std::set<std::int32_t> held_;  // numbers of leases
};

}  // namespace

Result<std::vector<EventSettled>> settle_events(Connection& connection, const EventStatements& sql,
                                                std::string_view lane, std::string_view owner,
                                                std::span<const EventSettlement> settlements) {
    ASSERT(!settlements.empty());
    TRY_ASSIGN(auto batch, Batch::of(settlements, sql.ids));
    const bool some_failed = std::ranges::any_of(settlements, is_failure);
    const bool some_sent = !std::ranges::all_of(settlements, is_failure);
    const bool some_dead = std::ranges::any_of(settlements, given_up);
    // Each of both takes all leases of the batch, also those of the other: so they are locked in one order, whichever
    // statement comes first.
    const auto run = [&](const SettleStatements& with, bool briefly) {
        std::vector<Step> steps;
        if (briefly) {
            steps.push_back({&fixed_statement(events::sql::brief_lock_waits), Params(kSettleLockTimeout)});
        }
        if (some_sent) steps.push_back({&with.sent, batch.params(lane, owner, false)});
        if (some_failed) steps.push_back({&with.failed, batch.params(lane, owner, true)});
        steps.back().point = "store.during_settle";
        // Letters last: they are of the rows that the steps before have made dead.
        if (some_dead) {
            steps.push_back({&sql.keep_table, sql.table_params});
            steps.push_back({&sql.letters, batch.letter_params(lane, owner)});
        }
        return connection.run(steps, Effect::write);
    };
    // Rows are seldom locked, and looking for locks costs a look-up per row: so the first try waits a moment, and only
    // the second one, after the server gave that up and rolled it back, leaves the locked rows out.
    const bool met_lock = std::ranges::any_of(settlements, &EventSettlement::met_lock);
    auto results = met_lock ? run(sql.settle_past_locks, false) : run(sql.settle, true);
    if (!results && !met_lock && connection.usable() && connection.refused_with() == kLockNotAvailable) {
        results = run(sql.settle_past_locks, false);
    }
    if (!results) return Failure(std::move(results.error()));

    const std::size_t end = results->size() - (some_dead ? 2 : 0);
    const Settled of_sent((*results)[end - (some_sent && some_failed ? 2 : 1)].get());
    const Settled of_failed((*results)[end - 1].get());
    // What is not among the entries is a second settlement of its row.
    std::vector<EventSettled> answers(settlements.size(), EventSettled::conflict);
    for (const Entry& entry : batch.entries()) {
        answers[entry.index] = (is_failure(settlements[entry.index]) ? of_failed : of_sent).of(entry);
    }
    return answers;
}

}  // namespace deliverd::store::postgres
