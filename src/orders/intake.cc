#include "orders/intake.h"

#include <fmt/format.h>

#include <utility>

namespace deliverd::orders {

Intake::Intake(const IntakeOptions& options, store::Orders& orders, Log& log)
    : options_(options), orders_(orders), log_(log), queue_(options.max_waiting) {
    // Last, because the threads use all other members.
    for (std::size_t i = 0; i < options_.writers; ++i) writers_.emplace_back([this] { write_until_closed(); });
}

Intake::~Intake() {
    stop();
}

void Intake::submit(store::NewOrder order, Done done) {
    Waiting waiting{std::move(order), std::move(done)};
    if (queue_.try_push(waiting)) return;
    const std::string why = queue_.closed()
                                ? "the service is stopping; the order was not stored, post it again in a moment"
                                : fmt::format("{} orders are already waiting; this one was not stored, post it again",
                                              options_.max_waiting);
    waiting.done(retryable(codes::kOverloaded, why));
}

void Intake::stop() {
    queue_.close();
    // A second stop() waits for the first one's joins.
    const MutexLock lock(stop_mutex_);
    for (std::thread& writer : writers_) {
        if (writer.joinable()) writer.join();
    }
}

void Intake::write_until_closed() {
    std::vector<Waiting> group;
    while (queue_.pop_until(group, options_.batch_size, Instant::max()) > 0) {
        store_group(group);
        group.clear();
    }
}

void Intake::store_group(std::vector<Waiting>& group) {
    std::vector<store::NewOrder> batch;
    batch.reserve(group.size());
    for (Waiting& waiting : group) batch.push_back(std::move(waiting.order));
    auto answers = accept(batch);
    if (answers) {
        for (std::size_t i = 0; i < group.size(); ++i) group[i].done(std::move((*answers)[i]));
    } else if (answers.error().error_class == ErrorClass::permanent && group.size() > 1) {
        // One order that the database refuses must not refuse its neighbours.
        store_one_by_one(group, batch);
    } else {
        for (Waiting& waiting : group) waiting.done(Failure(answers.error()));
    }
}

void Intake::store_one_by_one(std::vector<Waiting>& group, std::span<const store::NewOrder> batch) {
    for (std::size_t i = 0; i < group.size(); ++i) {
        auto answers = accept(batch.subspan(i, 1));
        if (answers) {
            group[i].done(std::move(answers->front()));
            continue;
        }
        group[i].done(Failure(answers.error()));
        if (answers.error().error_class == ErrorClass::permanent) continue;
        // The database became unreachable: each further attempt could take as long as its deadline. The rest was not
        // tried, so for it the error is retryable even if it is ambiguous for this order.
        for (++i; i < group.size(); ++i) group[i].done(retryable(answers.error().code, answers.error().message));
    }
}

Result<std::vector<store::AcceptAnswer>> Intake::accept(std::span<const store::NewOrder> batch) {
    auto answers = orders_.accept(batch);
    if (answers && answers->size() != batch.size()) {
        // A bug of a store. The orders may be stored, so that they can only be posted again.
        answers = ambiguous("wrong_answer", fmt::format("the store answered {} of {} orders; post them again",
                                                        answers->size(), batch.size()));
    }
    if (answers) {
        for (const store::AcceptAnswer& answer : *answers) {
            if (options_.on_stored) options_.on_stored(answer.kind);
        }
        if (failing_.exchange(false)) log_.info("orders are stored again");
    } else if (!failing_.exchange(true)) {  // once per outage, not once per group
        log_.warn("orders could not be stored", {{"orders", batch.size()},
                                                 {"class", to_string(answers.error().error_class)},
                                                 {"code", answers.error().code},
                                                 {"error", answers.error().message}});
    }
    return answers;
}

}  // namespace deliverd::orders
