#include "demo/demo_receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/try.h"

namespace deliverd::demo {

namespace {

constexpr std::size_t kHandlerThreads = 16;  // late answers occupy one each
constexpr Duration kStopPatience = std::chrono::seconds(1);

http::Response plain(int status, std::string body) {
    return {status, {}, "application/json", std::move(body)};
}

/// The number at the end of "memory-41" and "demo-order-000041"; of an event's id the digits that its last part begins
/// with; 0 when there is none.
std::int64_t number_of(std::string_view key) {
    std::int64_t number = 0;
    const std::size_t dash = key.rfind('-');
    if (dash != std::string_view::npos) std::from_chars(key.data() + dash + 1, key.data() + key.size(), number);
    return number;
}

}  // namespace

Result<std::unique_ptr<DemoReceiver>> DemoReceiver::start(ReceiverFaults faults, std::uint64_t seed) {
    std::unique_ptr<DemoReceiver> receiver(new DemoReceiver(faults, seed));
    http::ServerOptions options;
    options.port = 0;
    options.handler_threads = kHandlerThreads;
    const auto handle = [raw = receiver.get()](const http::Request& request) {
        const auto door = request.path == "/orders"   ? ReceiverDoor::orders
                          : request.path == "/events" ? ReceiverDoor::events
                                                      : ReceiverDoor::memories;
        return raw->answer(door, request.header("Idempotency-Key"),
                           {request.header("X-aggregate-id"), request.header("X-event-type")});
    };
    const auto error_body = [](int status, std::string_view /*code*/, std::string_view message) {
        return plain(status, fmt::format("{{\"error\":\"{}\"}}", message));
    };
    TRY_ASSIGN(receiver->server_, http::Server::start(options, handle, error_body));
    return receiver;
}

std::string DemoReceiver::address() const {
    return fmt::format("http://127.0.0.1:{}", server_->port());
}

void DemoReceiver::stop() {
    {
        const MutexLock lock(mutex_);
        ending_ = true;
    }
    ends_.notify_all();
    if (server_) server_->stop(kStopPatience);
}

void DemoReceiver::note_order(const EventMark& event) {
    const auto* const found = std::ranges::find(kEventSteps, event.type);
    const auto step = static_cast<std::size_t>(found - kEventSteps.begin());
    std::size_t& last = last_step_[std::string(event.aggregate)];
    if (step < last) ++counts_.out_of_order;
    last = std::max(last, step);
}

http::Response DemoReceiver::answer(ReceiverDoor door, std::string_view key, const EventMark& event) {
    const MutexLock lock(mutex_);
    ++counts_.calls;
    const std::int64_t number = number_of(key);
    // By number, not by chance, and once: a 400 is permanent, so the message becomes a dead letter at its first
    // attempt, and is taken when it is sent back.
    if (number > 0 && number % faults_.refuses_every == 0 && refused_.emplace(key).second) {
        ++counts_.refused;
        return plain(400, R"({"error":"this one is not wanted"})");
    }
    // One draw for all faults: their shares add up, and a run with the same seed repeats itself.
    const double draw = random_.unit();
    if (draw < faults_.fails) {
        ++counts_.failed;
        return plain(500, R"({"error":"out of order"})");
    }
    if (draw < faults_.fails + faults_.limits) {
        ++counts_.limited;
        http::Response response = plain(429, R"({"error":"too many"})");
        response.headers.emplace_back("Retry-After", "1");
        return response;
    }
    const std::string id(key);
    // Only what comes for the first time tells in which order the events were sent.
    if (door == ReceiverDoor::events && !taken_.contains(id) && !refused_.contains(id)) note_order(event);
    return take(door, key, draw < faults_.fails + faults_.limits + faults_.answers_late);
}

/// A broker knows its keys: an order that comes again was processed, and it says so.
http::Response DemoReceiver::take(ReceiverDoor door, std::string_view key, bool late) {
    static constexpr std::array kCountsOf{&ReceiverCounts::memories, &ReceiverCounts::orders, &ReceiverCounts::events};
    TakenCounts& counts = counts_.*kCountsOf.at(static_cast<std::size_t>(door));
    if (taken_.emplace(key).second) {
        ++counts.distinct;
    } else {
        ++counts.duplicates;
        if (door == ReceiverDoor::orders) {
            return plain(409, fmt::format(R"({{"code":"already_processed","idempotency_key":"{}"}})", key));
        }
    }
    if (late) {  // after it was taken: the sender gives up, and the message is ambiguous
        ++counts_.late;
        ends_.wait_for(mutex_, faults_.lateness, [this]() REQUIRES(mutex_) { return ending_; });
    }
    if (door == ReceiverDoor::events) return plain(204, "");
    if (door == ReceiverDoor::memories) return plain(200, fmt::format(R"({{"memory_id":"m-{}"}})", number_of(key)));
    return plain(200, fmt::format(R"({{"broker_order_id":"brk-{}","status":"accepted","idempotency_key":"{}"}})",
                                  number_of(key), key));
}

}  // namespace deliverd::demo
