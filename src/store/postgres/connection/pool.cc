#include "store/postgres/connection/pool.h"

#include <algorithm>
#include <utility>

namespace deliverd::store::postgres {

Borrowed::~Borrowed() {
    if (connection_ != nullptr) pool_->give_back(std::move(connection_));
}

Result<Borrowed> Pool::borrow(Deadline patience) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (limit_.passed())
            return retryable("db_timeout", "no database connection was asked for: deliverd is stopping");
        const Deadline deadline = limit_.cap(patience);
        if (auto connection = take_idle()) return Borrowed(*this, std::move(connection));
        const auto now = std::chrono::steady_clock::now();
        const bool down = last_failure_.has_value();
        const bool may_ask = !down || (!probing_ && now >= next_attempt_);
        if (open_ < options_.max_connections && may_ask) return connect(lock, deadline);
        // With none in use nothing can come back: only another attempt helps, and it is not this caller's to make.
        const bool hopeless = open_ == connecting_;
        if (down && (hopeless || now >= deadline)) return Failure(*last_failure_);
        if (now >= deadline) {
            return retryable("db_timeout", "all " + std::to_string(options_.max_connections) +
                                               " database connections stayed in use: raise database.max_open_conns");
        }
        const bool wait_for_attempt = down && !probing_ && open_ < options_.max_connections;
        changed_.wait_until(lock, wait_for_attempt ? std::min(deadline, next_attempt_) : deadline);
    }
}

std::unique_ptr<Connection> Pool::take_idle() {
    while (!idle_.empty()) {
        std::unique_ptr<Connection> connection = std::move(idle_.back());
        idle_.pop_back();
        if (connection->quiet()) return connection;
        --open_;
    }
    return nullptr;
}

Result<Borrowed> Pool::connect(std::unique_lock<std::mutex>& lock, Deadline deadline) {
    ++open_;
    ++connecting_;
    const bool probe = last_failure_.has_value();
    probing_ = probing_ || probe;
    lock.unlock();
    const auto began = std::chrono::steady_clock::now();
    const auto limit = std::min(deadline, began + options_.connect_timeout);
    const std::string conninfo = options_.refresh_conninfo ? options_.refresh_conninfo() : options_.conninfo;
    auto connection = Connection::open(conninfo, options_.session, limit, limit_);
    lock.lock();
    --connecting_;
    if (probe) probing_ = false;
    if (connection) {
        if (last_failure_) log_.info("database reached again", {{"database", place_of(options_.conninfo)}});
        last_failure_.reset();
        reconnect_wait_ = kMinReconnectWait;
        server_version_ = (*connection)->server_version();
        changed_.notify_all();
        return Borrowed(*this, std::move(*connection));
    }
    --open_;
    if (was_cut_short(began, limit)) {
        changed_.notify_all();
        return Failure(last_failure_.value_or(std::move(connection.error())));
    }
    // One that was never reached is the caller's to tell: commands answer with one line.
    const bool lost = server_version_ != 0 && !last_failure_;
    if (lost) log_.warn("database cannot be reached", {{"cause", connection.error().message}});
    last_failure_ = connection.error();
    next_attempt_ = std::chrono::steady_clock::now() + reconnect_wait_;
    reconnect_wait_ = std::min(reconnect_wait_ * 2, kMaxReconnectWait);
    changed_.notify_all();
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
    const std::lock_guard lock(mutex_);
    if (keep) {
        idle_.push_back(std::move(connection));
    } else {
        --open_;
    }
    if (last_failure_) {
        changed_.notify_all();  // the last one in use may be gone: nobody waits for it any more
    } else {
        changed_.notify_one();
    }
}

void Pool::limit_waits(Duration at_most) {
    const std::lock_guard lock(mutex_);  // no caller is between looking at the limit and waiting
    limit_.set(at_most);
    changed_.notify_all();
}

int Pool::server_version() const {
    const std::lock_guard lock(mutex_);
    return server_version_;
}

Result<PgResult> run_once(Pool& pool, const Statement& statement, const Params& params, Effect effect) {
    auto connection = pool.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    return (*connection)->run(Step{&statement, &params}, effect, (*connection)->statement_deadline());
}

Step relaxed_commit() {
    static const Statement kRelax{"relax_commit", "select set_config('synchronous_commit', 'off', true)"};
    static const Params kNone;
    return Step{&kRelax, &kNone};
}

Result<void> ping_server(Pool& pool, Duration deadline) {
    static const Statement kPing{"ping", "select 1"};
    const Deadline until = std::chrono::steady_clock::now() + deadline;
    auto connection = pool.borrow(until);
    if (!connection) return Failure(std::move(connection.error()));
    const Params none;
    auto result = (*connection)->run(Step{&kPing, &none}, Effect::read, until);
    if (!result) return Failure(std::move(result.error()));
    return {};
}

}  // namespace deliverd::store::postgres
