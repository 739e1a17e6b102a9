#include "deadletter/ingest.h"

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/failpoint.h"

namespace deliverd::deadletter {

Ingest::Ingest(IngestOptions options, RecordSource& source, store::DeadLetters& letters, const Clock& clock,
               Random& random, IngestObserver& observer, Log& log)
    : options_(options),
      source_(source),
      letters_(letters),
      clock_(clock),
      random_(random),
      observer_(observer),
      log_(log),
      committed_at_(clock.now()),
      looked_at_lag_(clock.now() - options.lag_every) {}

Ingest::~Ingest() {
    stop({});
    if (thread_.joinable()) thread_.join();
}

void Ingest::start() {
    thread_ = std::thread([this] { run(); });
}

bool Ingest::stop(Duration deadline) {
    {
        const MutexLock lock(mutex_);
        ending_ = true;
    }
    if (!thread_.joinable()) return true;
    source_.wake();
    {
        const MutexLock lock(mutex_);
        if (!changed_.wait_for(mutex_, deadline, [this]() REQUIRES(mutex_) { return ended_; })) return false;
    }
    thread_.join();
    return true;
}

std::optional<Error> Ingest::failure() const {
    const MutexLock lock(mutex_);
    return failure_;
}

bool Ingest::ending() const {
    const MutexLock lock(mutex_);
    return ending_;
}

void Ingest::run() {
    while (!ending() && step()) {
    }
    if (at_ == batch_.size() && !ahead_.empty() && take()) store_batch();
    // The commit would cover records that are not stored.
    if (uncommitted_ && at_ == batch_.size()) commit();
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

bool Ingest::step() {
    if (at_ == batch_.size()) {
        if (!take()) return false;
    } else if (clock_.now() < next_try_ && !keep_membership()) {
        return false;
    }
    if (at_ < batch_.size() && clock_.now() >= next_try_) store_batch();
    look_at_lag();
    return true;
}

// --- reading -------------------------------------------------------------------------------------------------------

bool Ingest::take() {
    if (!ahead_.empty()) {
        batch_ = std::exchange(ahead_, {});
        start_over();
        return true;
    }
    auto records = source_.poll(options_.max_records, options_.max_bytes, options_.poll_wait);
    if (!records) {
        fail(std::move(records.error()));
        return false;
    }
    if (records->empty() && uncommitted_) commit();
    add(std::move(*records));
    return true;
}

void Ingest::fail(Error error) {
    log_.error("dead letters: the topics cannot be read, and are not read any more",
               {{"code", error.code}, {"error", error.message}});
    observer_.on_failed();
    const MutexLock lock(mutex_);
    failure_ = std::move(error);
}

void Ingest::add(std::vector<Record> records) {
    std::ranges::move(letters_of(std::move(records)), std::back_inserter(batch_));
    start_over();
}

std::vector<store::NewLetter> Ingest::letters_of(std::vector<Record> records) {
    std::vector<store::NewLetter> letters;
    letters.reserve(records.size());
    for (Record& record : records) letters.push_back(letter_of(std::move(record), options_.max_value_bytes));
    const auto cut = std::ranges::count(letters, true, &store::NewLetter::truncated);
    if (cut > 0) observer_.on_truncated(static_cast<std::size_t>(cut));
    return letters;
}

/// The group takes a member that does not poll for dead. Records that still arrive while pausing are stored with the
/// rest, because a commit covers everything that was given. False: the source has ended. Its poll() no longer waits,
/// and nothing of the batch can be committed: the next process reads it again.
bool Ingest::keep_membership() {
    const Duration left = next_try_ - clock_.now();
    auto records = source_.poll(options_.max_records, options_.max_bytes, std::min(left, options_.poll_wait));
    if (!records) {
        fail(std::move(records.error()));
        return false;
    }
    if (!records->empty()) add(std::move(*records));
    return true;
}

// --- storing -------------------------------------------------------------------------------------------------------

void Ingest::store_batch() {
    ASSERT(at_ <= batch_.size());
    while (at_ < batch_.size()) {
        if (!store_part()) return;
    }
    failpoint("ingest.after_store");
    batch_done();
}

/// False: the store is away.
bool Ingest::store_part() {
    if (refusals_ >= kSureAfter) return store_reduced();
    const std::size_t letters = std::min(part_, batch_.size() - at_);
    const Instant since = clock_.now();
    const auto stored = store_and_read_on(std::span(batch_).subspan(at_, letters));
    if (stored) {
        count(letters, *stored, since);
        return true;
    }
    observer_.on_store_failed(stored.error().error_class);
    if (!is_refusal(stored.error())) {
        hold(stored.error());
        return false;
    }
    if (letters == 1) {
        refusal_ = stored.error();
        ++refusals_;
    } else {
        part_ = letters / 2;  // until the refused letter is alone
    }
    return true;
}

/// Not after a failure, and not when a commit is due: it would cover what was read.
bool Ingest::reads_on() const {
    return ahead_.empty() && at_ == 0 && part_ == batch_.size() && refusals_ == 0 && failures_ == 0 && !paused_ &&
           !commit_is_due() && !ending();
}

Result<std::int64_t> Ingest::store_and_read_on(std::span<const store::NewLetter> letters) {
    if (!reads_on()) return letters_.store(letters);
    std::future<Result<std::int64_t>> storing;
    try {
        storing = std::async(std::launch::async, [&] { return letters_.store(letters); });
    } catch (const std::system_error&) {  // no thread could be started
        return letters_.store(letters);
    }
    // A failure of the source shows again at the next poll.
    if (auto records = source_.poll(options_.max_records, options_.max_bytes, Duration::zero())) {
        ahead_ = letters_of(std::move(*records));
    }
    return storing.get();
}

bool Ingest::is_refusal(const Error& error) {
    return error.error_class == ErrorClass::permanent && error.code == codes::kLetterRefused;
}

/// Tries the next reduction. Before each one the whole record is tried again.
bool Ingest::store_reduced() {
    constexpr std::array kReductions = {Reduction::payload, Reduction::provenance, Reduction::bytes};
    if (reductions_ == kReductions.size()) {
        // Nothing is left that could be refused, so that it is not the record's fault. Wait as if the store were away,
        // then try the whole record again.
        hold(*refusal_);
        start_over();
        return false;
    }
    const Record& record = batch_[at_].record;
    const Reduction what = kReductions.at(reductions_);
    const store::NewLetter letter = reduced(batch_[at_], what, refusal_->message);
    const Instant since = clock_.now();
    const auto stored = letters_.store(std::span(&letter, 1));
    if (stored) {
        log_.error("dead letters: the store refused a record; it was stored without some of it",
                   {{"topic", record.topic},
                    {"partition", record.partition},
                    {"offset", record.offset},
                    {"without", to_string(what)},
                    {"error", refusal_->message}});
        observer_.on_reduced();
        count(1, *stored, since);
        return true;
    }
    observer_.on_store_failed(stored.error().error_class);
    if (is_refusal(stored.error())) {
        ++reductions_;
        refusals_ = kSureAfter - 1;
        return true;
    }
    if (++interruptions_ < kMaxInterruptions) refusals_ = kSureAfter - 1;
    hold(stored.error());
    return false;
}

void Ingest::start_over() {
    part_ = batch_.size() - at_;
    refusal_.reset();
    refusals_ = 0;
    interruptions_ = 0;
    reductions_ = 0;
}

void Ingest::count(std::size_t letters, std::int64_t fresh, Instant since) {
    at_ += letters;
    start_over();
    failures_ = 0;
    uncommitted_ = true;
    const auto added = static_cast<std::size_t>(std::clamp<std::int64_t>(fresh, 0, static_cast<std::int64_t>(letters)));
    observer_.on_stored(added, letters - added, clock_.now() - since);
}

void Ingest::hold(const Error& error) {
    const Instant now = clock_.now();
    ++failures_;
    next_try_ = now + options_.backoff.wait_after(failures_, random_);
    if (!paused_ || now - complained_ >= kComplainEvery) {
        complained_ = now;
        log_.warn("dead letters: records cannot be stored; reading is paused and they are tried again",
                  {{"records", batch_.size() - at_},
                   {"failures", failures_},
                   {"code", error.code},
                   {"error", error.message}});
    }
    if (paused_) return;
    paused_ = true;
    // The commit that ends the pause covers everything that was read.
    std::ranges::move(std::exchange(ahead_, {}), std::back_inserter(batch_));
    source_.pause();
    observer_.on_paused(true);
}

void Ingest::batch_done() {
    batch_.clear();
    at_ = 0;
    start_over();
    if (!paused_) {
        if (ahead_.empty() && commit_is_due()) commit();
        return;
    }
    commit();  // otherwise all of it would be given again
    paused_ = false;
    source_.resume();
    observer_.on_paused(false);
    log_.info("dead letters: records are stored again");
}

// --- what the group knows ------------------------------------------------------------------------------------------

bool Ingest::commit_is_due() const {
    return clock_.now() - committed_at_ >= options_.commit_every;
}

/// Only when everything that was read is stored.
void Ingest::commit() {
    ASSERT(at_ == batch_.size() && ahead_.empty());
    const auto done = source_.commit(options_.commit_deadline);
    committed_at_ = clock_.now();
    observer_.on_committed(done.has_value());
    if (done) {
        uncommitted_ = false;
    } else {
        log_.warn("dead letters: offsets could not be committed; the records may be read again",
                  {{"code", done.error().code}, {"error", done.error().message}});
    }
}

void Ingest::look_at_lag() {
    if (clock_.now() - looked_at_lag_ < options_.lag_every) return;
    looked_at_lag_ = clock_.now();
    const bool reachable = source_.reachable();
    observer_.on_reachable(reachable);
    if (!reachable) return;
    if (const std::int64_t lag = source_.lag(); lag >= 0) observer_.on_lag(lag);
}

}  // namespace deliverd::deadletter
