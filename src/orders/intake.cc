#include "orders/intake.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/mutex.h"

namespace deliverd::orders {

namespace {

/// The queue's waits need a deadline; an order or stop() ends this one.
constexpr std::chrono::hours kLongWait{1};

using Answer = Result<store::AcceptAnswer>;

}  // namespace

struct Intake::Impl {
    struct Waiting {
        store::NewOrder order;
        Done done;
    };

    Impl(const IntakeOptions& wanted, store::Orders& port, Log& to) : options(wanted), orders(port), log(to) {
        for (std::size_t i = 0; i < options.writers; ++i) writers.emplace_back([this] { write_until_closed(); });
    }

    void write_until_closed() {
        std::vector<Waiting> group;
        // Nothing enters a closed queue, so once it is closed and empty it stays empty.
        while (!queue.closed() || queue.size() > 0) {
            group.clear();
            queue.pop_until(group, options.batch_size, std::chrono::steady_clock::now() + kLongWait);
            if (!group.empty()) store_group(group);
        }
    }

    void store_group(std::vector<Waiting>& group) {
        std::vector<store::NewOrder> batch;
        batch.reserve(group.size());
        for (Waiting& waiting : group) batch.push_back(std::move(waiting.order));
        auto answers = accept(batch);
        if (answers) {
            for (std::size_t i = 0; i < group.size(); ++i) group[i].done(std::move((*answers)[i]));
        } else if (answers.error().error_class == ErrorClass::permanent && group.size() > 1) {
            store_one_by_one(group, batch);
        } else {
            for (Waiting& waiting : group) waiting.done(tl::unexpected(answers.error()));
        }
    }

    /// Stops when the database becomes unreachable: each further attempt could take long. The rest was not tried.
    void store_one_by_one(std::vector<Waiting>& group, std::span<const store::NewOrder> batch) {
        for (std::size_t i = 0; i < group.size(); ++i) {
            auto answers = accept(batch.subspan(i, 1));
            if (answers) {
                group[i].done(std::move(answers->front()));
                continue;
            }
            group[i].done(tl::unexpected(answers.error()));
            if (answers.error().error_class == ErrorClass::permanent) continue;
            for (++i; i < group.size(); ++i) {
                group[i].done(retryable(answers.error().code, answers.error().message));
            }
        }
    }

    Result<std::vector<store::AcceptAnswer>> accept(std::span<const store::NewOrder> batch) {
        auto answers = orders.accept(batch);
        if (answers && answers->size() != batch.size()) {
            answers = ambiguous("wrong_answer", fmt::format("the store answered {} of {} orders; post them again",
                                                            answers->size(), batch.size()));
        }
        if (answers) {
            report(*answers);
            if (failing.exchange(false)) log.info("orders are stored again");
        } else if (!failing.exchange(true)) {  // once per outage, not once per group
            log.warn("orders could not be stored", {{"orders", batch.size()},
                                                    {"class", to_string(answers.error().error_class)},
                                                    {"code", answers.error().code},
                                                    {"error", answers.error().message}});
        }
        return answers;
    }

    void report(const std::vector<store::AcceptAnswer>& answers) const {
        if (!options.on_stored) return;
        for (const store::AcceptAnswer& answer : answers) options.on_stored(answer.kind);
    }

    const IntakeOptions options;
    store::Orders& orders;
    Log& log;
    std::atomic<bool> failing = false;
    BoundedQueue<Waiting> queue{options.max_waiting};
    Mutex stop_mutex;
    std::vector<std::thread> writers GUARDED_BY(stop_mutex);
};

Intake::Intake(const IntakeOptions& options, store::Orders& orders, Log& log)
    : impl_(std::make_unique<Impl>(options, orders, log)) {}

Intake::~Intake() {
    stop();
}

void Intake::submit(store::NewOrder order, Done done) {
    Impl::Waiting waiting{std::move(order), std::move(done)};
    if (impl_->queue.try_push(waiting)) return;
    const std::string why = impl_->queue.closed()
                                ? "the service is stopping; the order was not stored, post it again in a moment"
                                : fmt::format("{} orders are already waiting; this one was not stored, post it again",
                                              impl_->options.max_waiting);
    waiting.done(Answer(retryable(codes::kOverloaded, why)));
}

void Intake::stop() {
    impl_->queue.close();
    const MutexLock lock(impl_->stop_mutex);
    for (std::thread& writer : impl_->writers) {
        if (writer.joinable()) writer.join();
    }
}

}  // namespace deliverd::orders
