// For tests: servers on a free port, requests as bytes, and a gate for handlers.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "http/server.h"
#include "http/testing/raw_client.h"

namespace deliverd::http {

inline Response plain_error(int status, std::string_view code, std::string_view) {
    return {status, {}, "text/plain", std::string(code)};
}

inline Response echo(const Request& request) {
    return {200, {}, "text/plain", request.method + " " + request.path + " " + request.query + " " + request.body};
}

/// `Any` is a Handler or a DeferredHandler.
template <typename Any = Handler>
std::unique_ptr<Server> serve(ServerOptions options, Any handler = echo) {
    options.port = 0;
    auto server = Server::start(options, std::move(handler), plain_error);
    EXPECT_TRUE(server) << server.error().message;
    return std::move(*server);
}

inline std::string get(std::string_view path, std::string_view headers = "") {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n";
}

inline std::string post(std::string_view body) {
    return "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
}

/// Holds handlers until it is opened, and tells how many have arrived.
class Gate {
public:
    void pass() {
        std::unique_lock lock(mutex_);
        ++arrived_;
        changed_.notify_all();
        changed_.wait_for(lock, RawClient::kPatience, [this] { return open_; });
    }
    bool wait_for(int arrivals) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, RawClient::kPatience, [&] { return arrived_ >= arrivals; });
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int arrived_ = 0;
    bool open_ = false;
};

}  // namespace deliverd::http
