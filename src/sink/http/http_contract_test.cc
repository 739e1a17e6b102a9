#include <algorithm>
#include <mutex>

#include "http/server.h"
#include "sink/http/http_sink.h"
#include "sink/http/testing/fault_server.h"
#include "sink/testing/contract.h"

namespace deliverd::sink {
namespace {

constexpr std::size_t kMaxBodyBytes = 64UL * 1024;
constexpr std::size_t kConnections = 3;

class HttpContractReceiver final : public ContractReceiver {
public:
    HttpContractReceiver() : mute_([](Peer& peer) { peer.wait_until_closed(); }) {
        http::ServerOptions options;
        options.port = 0;
        options.max_body_bytes = kMaxBodyBytes;
        auto server = http::Server::start(
            options,
            [this](const http::Request& request) {
                const std::lock_guard lock(mutex_);
                arrived_.insert(std::string(request.body));
                return http::Response{200, {}, "text/plain", "ok"};
            },
            [](int status, std::string_view code, std::string_view) {
                return http::Response{status, {}, "text/plain", std::string(code)};
            });
        if (!server) throw std::runtime_error(server.error().message);
        server_ = std::move(*server);
    }

    std::unique_ptr<Sink> sink() override { return sink_to("http://127.0.0.1:" + std::to_string(server_->port()), 16); }
    Message message(std::int64_t id, std::string body) override { return test_message(id, std::move(body)); }
    std::multiset<std::string> arrived() override {
        const std::lock_guard lock(mutex_);
        return arrived_;
    }
    std::optional<Message> oversized(std::int64_t id) override {
        return test_message(id, std::string(kMaxBodyBytes + 1, 'x'));
    }

    std::unique_ptr<Sink> unanswered_sink() override { return sink_to(mute_.url(), kConnections); }
    std::vector<Message> unanswered_messages() override {
        std::vector<Message> out;
        for (int id = 0; id < 10; ++id) out.push_back(test_message(id));
        return out;
    }
    std::size_t most_under_way() override { return kConnections; }
    void wait_until_started() override {
        const auto end = std::chrono::steady_clock::now() + kTestPatience;
        pollfd nothing{-1, 0, 0};
        while (mute_.accepts() < static_cast<int>(kConnections) && std::chrono::steady_clock::now() < end) {
            ::poll(&nothing, 1, 1);
        }
    }

private:
    std::unique_ptr<Sink> sink_to(const std::string& url, std::size_t connections) {
        HttpSinkOptions options;
        options.url = url;
        options.timeout = kTestPatience;
        options.max_connections = connections;
        auto made = make_http_sink(std::move(options), log_);
        if (!made) throw std::runtime_error(made.error().message);
        return std::move(*made);
    }

    NullLog log_;
    FaultServer mute_;
    std::mutex mutex_;
    std::multiset<std::string> arrived_;
    std::unique_ptr<http::Server> server_;  // its handler uses what is above
};

INSTANTIATE_TEST_SUITE_P(Http, SinkContract, testing::Values([]() -> std::unique_ptr<ContractReceiver> {
                             return std::make_unique<HttpContractReceiver>();
                         }));

}  // namespace
}  // namespace deliverd::sink
