#include "http/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <thread>

#include "base/mutex.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "http/session.h"

namespace deliverd::http {

namespace {

constexpr std::size_t kMaxRefusing = 64;  // connections that are being answered 503; beyond that: closed at once
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);  // after a failed accept (no descriptors left)
constexpr Duration kLongestPatience = std::chrono::hours(24);      // Duration::max() from now would overflow

class ServerImpl final : public Server {
public:
    ServerImpl(const ServerOptions& options, std::shared_ptr<ssl_ctx_st> tls, DeferredHandler handler,
               ErrorBody error_body)
        : core_{options, std::move(handler), std::move(error_body),
                std::make_shared<Mailbox>(options.max_connections,
                                          [this] { asio::post(io_, [this] { deliver_answers(); }); })},
          acceptor_(io_),
          accept_pause_(io_) {
        // It is swapped with the mailbox's list: neither ever needs memory to take an answer.
        answered_.reserve(options.max_connections);
        core_.tls = std::move(tls);
        core_.on_quiet = [this] {
            const MutexLock lock(quiet_mutex_);
            quiet_ = true;
            quiet_changed_.notify_all();
        };
    }
    ~ServerImpl() override {
        try {
            ServerImpl::stop(Duration::zero());
        } catch (...) {  // even a lock failed: nothing is left to try
        }
    }

    error_code listen() {
        asio::ip::basic_resolver<tcp, Executor> resolver(io_);
        error_code error;
        const auto found = resolver.resolve(core_.options.host, std::to_string(core_.options.port),
                                            tcp::resolver::passive | tcp::resolver::numeric_service, error);
        if (error) return error;
        // A name such as localhost may have an address that this machine cannot bind (IPv6 switched off): the next may
        // do.
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
        TRY_ASSIGN(auto loaded, load_tls(*core_.options.tls));
        // The files were read on the caller's thread, because the I/O thread must not wait for a disk. Open connections
        // keep the context that they began with.
        asio::post(io_, [this, context = std::move(loaded.context)] { core_.tls = context; });
        return loaded.valid_until;
    }

    void stop(Duration patience) override {
        const MutexLock stopping(stop_mutex_);
        if (thread_.joinable()) {
            asio::post(io_, [this] { begin_drain(); });
            {
                const MutexLock lock(quiet_mutex_);
                quiet_changed_.wait_for(quiet_mutex_, std::min(patience, kLongestPatience),
                                        [this]() REQUIRES(quiet_mutex_) { return quiet_; });
            }
            io_.stop();
            thread_.join();
        }
        error_code ignored;
        ignored = acceptor_.close(ignored);
        // First: a reply that comes from now on must not touch the sessions that end below.
        core_.mailbox->close();
        // Not close(): a session that waits for a reply owns itself, and would stay for ever.
        while (!core_.waiting.empty()) core_.waiting.front()->abandon();
        while (!core_.reading.empty()) core_.reading.front()->abandon();
        while (!core_.serving.empty()) core_.serving.front()->abandon();
        // Running handlers use no session, only the mailbox, which they share.
        core_.pool.stop();
    }

private:
    error_code listen_on(const tcp::endpoint& endpoint) {
        error_code error;
        error = acceptor_.open(endpoint.protocol(), error);
        if (error) return error;
        // Connections of a process that ended may still be in TIME_WAIT, and would keep its successor from binding.
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
        // The kernel reports this even if no connection is waiting, and then no other has to be closed for it.
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
            // Others in this list have sent part of a header, or wait for a delayed answer: they may finish.
            if (session->is_idle()) session->close();
        }
        if (core_.busy == 0) core_.on_quiet();
    }

    // Sessions live in the I/O context's queues and refer to the members before it, which must outlive them.
    Mutex quiet_mutex_;
    Condition quiet_changed_;
    bool quiet_ GUARDED_BY(quiet_mutex_) = false;
    Core core_;
    asio::io_context io_{1};
    // While a handler runs, its session has nothing pending here, and the loop must not end.
    asio::executor_work_guard<Executor> keep_running_{io_.get_executor()};
    asio::basic_socket_acceptor<tcp, Executor> acceptor_;
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor>
        accept_pause_;
    std::uint16_t port_ = 0;
    std::vector<Session*> answered_;  // taken from the mailbox, to be written
    Mutex stop_mutex_;
    std::thread thread_;  // joined under stop_mutex_
};

std::string bind_advice(const error_code& error) {
    if (error == asio::error::address_in_use) return "stop the program that uses it, or choose another port";
    if (error == asio::error::access_denied) return "ports below 1024 need privileges: choose a higher port";
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
            TRY_ASSIGN(tls, load_tls(*options.tls));
        }
        auto server =
            std::make_unique<ServerImpl>(options, std::move(tls.context), std::move(handler), std::move(error_body));
        if (const auto error = server->listen()) {
            return permanent(codes::kBindFailed, fmt::format("cannot listen on {}:{}: {}; {}", options.host,
                                                             options.port, error.message(), bind_advice(error)));
        }
        server->run();
        return server;
    } catch (const std::exception& error) {
        return retryable("server_failed", fmt::format("cannot start the HTTP server: {}", error.what()));
    }
}

}  // namespace deliverd::http
