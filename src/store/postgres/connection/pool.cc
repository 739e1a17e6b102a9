#include "store/postgres/connection/pool.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/refusal.h"
#include "store/postgres/connection/statements.h"

namespace deliverd::store::postgres {

void GiveBack::operator()(Connection* connection) const {
    pool->give_back(std::unique_ptr<Connection>(connection));
}

Result<Borrowed> Pool::borrow(Deadline patience) {
    const MutexLock lock(mutex_);
    for (;;) {
        // Before an idle one is lent: nothing is sent on it any more (too_late() in connection.cc).
        if (limit_.passed())
            return retryable(codes::kDbTimeout, "no database connection was opened: deliverd is stopping");
        const Deadline deadline = limit_.cap(patience);
        if (auto connection = take_idle()) return lend(std::move(connection));
        const auto now = std::chrono::steady_clock::now();
        const bool down = last_failure_.has_value();
        const bool may_ask = !down || (!probing_ && now >= next_attempt_);
        if (open_ < options_.max_connections && may_ask) return connect(deadline);
        // With none in use nothing can come back: only another attempt helps, and it is not this caller's to make.
        const bool hopeless = open_ == connecting_;
        if (down && (hopeless || now >= deadline)) return Failure(*last_failure_);
        if (now >= deadline) {
            return retryable(codes::kDbTimeout,
                             "all " + std::to_string(options_.max_connections) +
                                 " database connections stayed in use: raise database.max_open_conns");
        }
        const bool wait_for_attempt = down && !probing_ && open_ < options_.max_connections;
        // A caller that waits for the next attempt wakes when it is due and makes it: there is no thread for that.
        changed_.wait_until(mutex_, wait_for_attempt ? std::min(deadline, next_attempt_) : deadline,
                            [this, seen = changes_]() REQUIRES(mutex_) { return changes_ != seen; });
    }
}

std::unique_ptr<Connection> Pool::take_idle() {
    while (!idle_.empty()) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        // A server that ended has said so meanwhile, on every idle connection. A statement sent on one would be lost,
        // and a write ambiguous.
        if (connection->quiet()) return connection;
        ASSERT(open_ > 0);
        --open_;
    }
    return nullptr;
}

Result<Borrowed> Pool::connect(Deadline deadline) {
    // Counted before the mutex is released, or others would connect beyond the limit.
    ++open_;
    ++connecting_;
    const bool probe = last_failure_.has_value();
    probing_ = probing_ || probe;
    mutex_.unlock();
    const auto began = std::chrono::steady_clock::now();
    const auto limit = std::min(deadline, began + options_.connect_timeout);
    const std::string conninfo = options_.refresh_conninfo ? options_.refresh_conninfo() : options_.conninfo;
    auto connection = Connection::open(conninfo, options_.session, limit, limit_);
    mutex_.lock();
    ASSERT(connecting_ > 0 && connecting_ <= open_);
    --connecting_;
    if (probe) probing_ = false;
    if (connection) {
        if (last_failure_) log_.info("database reached again", {{"database", place_of(options_.conninfo)}});
        last_failure_.reset();
        reconnect_wait_ = kMinReconnectWait;
        server_version_ = (*connection)->server_version();
        notify_all();
        return lend(std::move(*connection));
    }
    --open_;
    // Says nothing about the server: neither a failure for the others nor a longer wait.
    if (was_cut_short(began, limit)) {
        notify_all();
        return Failure(last_failure_.value_or(std::move(connection.error())));
    }
    // A server that was never reached is the caller's to report: commands answer with one line.
    const bool lost = server_version_ != 0 && !last_failure_;
    if (lost) log_.warn("database cannot be reached", {{"cause", connection.error().message}});
    // The answer for all who wait now, and for those who come before the next attempt: with 40 callers that each ask
    // for themselves, the last would learn of an outage after a minute.
    last_failure_ = connection.error();
    next_attempt_ = std::chrono::steady_clock::now() + reconnect_wait_;
    reconnect_wait_ = std::min(reconnect_wait_ * 2, kMaxReconnectWait);
    notify_all();
    return Failure(std::move(connection.error()));
}

/// Who waited longest for the next attempt makes it, with what is left of its patience. Were its failure counted, a
/// server that is back would stay away for as long as there are such callers.
bool Pool::was_cut_short(Deadline began, Deadline limit) const {
    const Duration fair = std::min(options_.wait, options_.connect_timeout) / 2;
    return limit - began < fair && std::chrono::steady_clock::now() >= limit;
}

void Pool::give_back(std::unique_ptr<Connection> connection) {
    const bool keep = connection->usable() && !connection->in_transaction();
    if (!keep) connection.reset();  // closing takes time: not under the lock
    const MutexLock lock(mutex_);
    ASSERT(open_ > idle_.size());  // this one was lent
    if (keep) {
        idle_.push_back(std::move(connection));
    } else {
        --open_;
    }
    if (last_failure_) {
        notify_all();  // the last one in use may be gone: then nothing comes back
    } else {
        ++changes_;
        changed_.notify_one();
    }
}

void Pool::limit_waits(Duration at_most) {
    const MutexLock lock(mutex_);  // no caller is between looking at the limit and waiting
    limit_.set(at_most);
    notify_all();
}

void Pool::notify_all() {
    ++changes_;
    changed_.notify_all();
}

int Pool::server_version() const {
    const MutexLock lock(mutex_);
    return server_version_;
}

Result<Transaction> Transaction::begin(Pool& pool) {
    TRY_ASSIGN(auto connection, pool.borrow());
    TRY(connection->script("begin", Effect::read));
    return Transaction(std::move(connection));
}

Transaction::~Transaction() {
    // Should this fail too, the pool throws the connection away, which rolls back as well.
    if (connection_ && connection_->usable() && connection_->in_transaction()) {
        static_cast<void>(connection_->script("rollback", Effect::read));
    }
}

// Effect::read, whatever the statement does: a lost connection rolls it back, so that it is certainly not done.
Result<PgResult> Transaction::run(const Statement& statement, Params params) {
    return connection_->run(Step{&statement, std::move(params)}, Effect::read);
}

Result<void> Transaction::commit() {
    return connection_->script("commit", Effect::write);
}

Result<std::vector<PgResult>> run_once(Pool& pool, std::span<const Step> steps, Effect effect) {
    TRY_ASSIGN(auto connection, pool.borrow());
    return connection->run(steps, effect);
}

Result<PgResult> run_once(Pool& pool, const Statement& statement, Params params, Effect effect) {
    TRY_ASSIGN(auto connection, pool.borrow());
    return connection->run(Step{&statement, std::move(params)}, effect);
}

Step relaxed_commit() {
    static const Statement kRelax{"connection_relax_commit", connection::sql::relax_commit};
    return Step{&kRelax};
}

Result<void> ping_server(Pool& pool, Duration deadline) {
    static const Statement kPing{"connection_ping", connection::sql::ping};
    const Deadline until = std::chrono::steady_clock::now() + deadline;
    TRY_ASSIGN(auto connection, pool.borrow(until));  // waiting for a connection counts: a full pool does not answer
    TRY(connection->run(Step{&kPing}, Effect::read, until));
    return {};
}

}  // namespace deliverd::store::postgres
