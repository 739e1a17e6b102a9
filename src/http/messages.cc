#include "http/messages.h"

#include <atomic>
#include <utility>

#include "base/text.h"

namespace deliverd::http {

std::string_view Request::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (equal_ignoring_case(key, name)) return value;
    }
    return {};
}

struct Reply::State {
    explicit State(std::function<void(Response)> d) : deliver(std::move(d)) {}
    ~State() {
        // The last copy is gone, so no answer will come. The client must not wait for its own timeout.
        if (answered) return;
        try {
            deliver(Response{500, {}, "text/plain", {}});
        } catch (...) {  // no one is left to report to
        }
    }

    std::function<void(Response)> deliver;
    std::atomic<bool> answered = false;
};

Reply::Reply(std::function<void(Response)> deliver) : state_(std::make_shared<State>(std::move(deliver))) {}

void Reply::operator()(Response response) const {
    if (state_->answered.exchange(true)) return;
    // Moved out: other copies of the reply may live on, and would keep alive what this function holds.
    const auto deliver = std::move(state_->deliver);
    deliver(std::move(response));
}

}  // namespace deliverd::http
