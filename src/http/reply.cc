#include <atomic>
#include <utility>

#include "http/server.h"

namespace deliverd::http {

struct Reply::State {
    explicit State(std::function<void(Response)> d) : deliver(std::move(d)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (answered) return;
        try {
            deliver(Response{500, {}, "text/plain", {}});
        } catch (...) {  // nobody is left who could be told
        }
    }

    std::function<void(Response)> deliver;
    std::atomic<bool> answered = false;
};

Reply::Reply(std::function<void(Response)> deliver) : state_(std::make_shared<State>(std::move(deliver))) {}

void Reply::operator()(Response response) const {
    if (state_->answered.exchange(true)) return;
    // Moved out, because copies of the reply may stay, and what it holds for the answer need not.
    const auto deliver = std::move(state_->deliver);
    deliver(std::move(response));
}

}  // namespace deliverd::http
