// One I/O thread owns every socket, so sessions need no locks of their own; handlers run on the pool, and
// their responses come back through the mailbox.
#include "http/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "http/session.h"

namespace deliverd::http {

namespace {

constexpr std::size_t kMaxRefusing = 64;  // connections being told 503 at once; further ones are just closed
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // after a failed accept (no descriptors left)
constexpr Duration kLongestPatience = std::chrono::hours(24);

class ServerImpl final : public Server {
public:
    ServerImpl(const ServerOptions& options, std::shared_ptr<ssl_ctx_st> tls, DeferredHandler handler,
               ErrorBody error_body)
        : core_(options, std::move(handler), std::move(error_body),
                std::make_shared<Mailbox>(options.max_connections,
                                          [this] { asio::post(io_, [this] { deliver_answers(); }); })),
          acceptor_(io_),
          accept_pause_(io_) {
        answered_.reserve(options.max_connections);
        core_.tls = std::move(tls);
        core_.on_quiet = [this] {
            const std::lock_guard lock(quiet_mutex_);
            quiet_ = true;
            quiet_changed_.notify_all();
        };
    }
    ~ServerImpl() override {
        try {
            ServerImpl::stop(Duration::zero());
        } catch (...) {  // only where even a lock fails: nothing is left to do about it
        }
    }
    ServerImpl(const ServerImpl&) = delete;
    ServerImpl& operator=(const ServerImpl&) = delete;

    error_code listen() {
        asio::ip::basic_resolver<tcp, Executor> resolver(io_);
        error_code error;
        const auto found = resolver.resolve(core_.options.host, std::to_string(core_.options.port),
                                            tcp::resolver::passive | tcp::resolver::numeric_service, error);
        if (error) return error;
        for (const auto& entry : found) {
            error = listen_on(entry.endpoint());
            if (!error) break;
        }
        if (error) return error;
        port_ = acceptor_.local_endpoint(error).port();
        return error;
    }

    void run() {
        accept();
        thread_ = std::thread([this] { serve(); });
    }

    [[nodiscard]] std::uint16_t port() const override { return port_; }

    Result<WallTime> reload_tls() override {
        auto loaded = load_tls(*core_.options.tls);
        if (!loaded) return tl::unexpected(loaded.error());
        asio::post(io_, [this, context = std::move(loaded->context)] { core_.tls = context; });
        return loaded->valid_until;
    }

    void stop(Duration patience) override {
        const std::lock_guard stopping(stop_mutex_);
        if (thread_.joinable()) {
            asio::post(io_, [this] { begin_drain(); });
            std::unique_lock lock(quiet_mutex_);
            quiet_changed_.wait_for(lock, std::min(patience, kLongestPatience), [this] { return quiet_; });
            lock.unlock();
            io_.stop();
            thread_.join();
        }
        error_code ignored;
        ignored = acceptor_.close(ignored);
        core_.mailbox->close();
        while (!core_.waiting.empty()) core_.waiting.front()->abandon();
        while (!core_.reading.empty()) core_.reading.front()->abandon();
        while (!core_.serving.empty()) core_.serving.front()->abandon();
        core_.pool.stop();
    }

private:
    error_code listen_on(const tcp::endpoint& endpoint) {
        error_code error;
        error = acceptor_.open(endpoint.protocol(), error);
        if (error) return error;
        error = acceptor_.set_option(asio::socket_base::reuse_address(true), error);
        if (!error) error = acceptor_.bind(endpoint, error);
        if (!error) error = acceptor_.listen(asio::socket_base::max_listen_connections, error);
        if (error) {
            error_code ignored;
            ignored = acceptor_.close(ignored);
        }
        return error;
    }

    void serve() noexcept {
        while (true) {
            try {
                io_.run();
                return;
            } catch (...) {  // out of memory while serving one connection must not end the others
            }
        }
    }

    void accept() {
        acceptor_.async_accept([this](error_code error, Socket socket) {
            if (!acceptor_.is_open()) return;
            if (error) return on_accept_error(error);
            try {
                admit(std::move(socket));
            } catch (...) {  // out of memory: this connection ends, others are accepted
            }
            accept();
        });
    }

    void on_accept_error(error_code error) {
        const bool out_of_descriptors =
            error == asio::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system;
        if (!out_of_descriptors) return pause_then_accept();
        // The kernel says so also when nobody is there to be accepted, and nobody has to go for that.
        acceptor_.async_wait(tcp::socket::wait_read, [this](error_code) {
            if (!acceptor_.is_open()) return;
            if (make_room()) return accept();
            pause_then_accept();
        });
    }

    void pause_then_accept() {
        accept_pause_.expires_after(kAcceptPause);
        accept_pause_.async_wait([this](error_code error) {
            if (!error && acceptor_.is_open()) accept();
        });
    }

    void admit(Socket socket) {
        const std::size_t open = core_.waiting.size() + core_.reading.size() + core_.serving.size();
        const bool full = open >= core_.options.max_connections;
        const bool refused = full && !make_room();
        if (refused && core_.refusing >= kMaxRefusing) return;
        std::make_shared<Session>(std::move(socket), core_, refused)->start();
    }

    /// Closes the connection that has waited longest for its client, for a request before those for a body; false when
    /// all are being served.
    bool make_room() {
        for (auto* list : {&core_.waiting, &core_.reading}) {
            if (list->empty()) continue;
            list->front()->close();
            return true;
        }
        return false;
    }

    void deliver_answers() {
        core_.mailbox->take(answered_);
        for (auto* session : answered_) {
            try {
                session->deliver();
            } catch (...) {  // out of memory: this connection ends, the others get their answers
            }
        }
        answered_.clear();
    }

    void begin_drain() {
        error_code ignored;
        ignored = acceptor_.close(ignored);
        core_.draining = true;
        for (auto next = core_.waiting.begin(); next != core_.waiting.end();) {
            auto* session = *next++;  // a session that closes leaves the list
            if (session->is_idle()) session->close();
        }
        if (core_.busy == 0) core_.on_quiet();
    }

    // Sessions live in the I/O context's queues and refer to what stands before it: that has to outlive them.
    std::mutex quiet_mutex_;
    std::condition_variable quiet_changed_;
    bool quiet_ = false;
    Core core_;
    asio::io_context io_{1};
    // While a handler runs, its session has nothing pending here; the loop has to go on all the same.
    asio::executor_work_guard<Executor> keep_running_{io_.get_executor()};
    asio::basic_socket_acceptor<tcp, Executor> acceptor_;
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor>
        accept_pause_;
    std::uint16_t port_ = 0;
    std::vector<Session*> answered_;  // taken from the mailbox, to be written
    std::mutex stop_mutex_;
    std::thread thread_;
};

std::string bind_advice(const error_code& error) {
    if (error == asio::error::address_in_use) return "stop the program that uses it, or choose another port";
    if (error == asio::error::access_denied) return "ports below 1024 need privileges: choose a higher one";
    return "choose an address of this machine, such as 127.0.0.1";
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Handler handler, ErrorBody error_body) {
    return start(options, DeferredHandler([handler = std::move(handler)](const Request& request, const Reply& reply) {
                     reply(handler(request));
                 }),
                 std::move(error_body));
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, DeferredHandler handler,
                                              ErrorBody error_body) {
    try {
        LoadedTls tls;
        if (options.tls) {
            auto loaded = load_tls(*options.tls);
            if (!loaded) return tl::unexpected(loaded.error());
            tls = std::move(*loaded);
        }
        auto server =
            std::make_unique<ServerImpl>(options, std::move(tls.context), std::move(handler), std::move(error_body));
        if (const auto error = server->listen()) {
            return permanent("bind_failed", fmt::format("cannot listen on {}:{}: {}; {}", options.host, options.port,
                                                        error.message(), bind_advice(error)));
        }
        server->run();
        return server;
    } catch (const std::exception& error) {
        return retryable("server_failed", fmt::format("cannot start the HTTP server: {}", error.what()));
    }
}

}  // namespace deliverd::http
