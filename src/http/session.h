// One connection of the server: reads a request, has it handled, writes the response, and repeats. Only server.cc
// includes this header, so that no other file compiles Beast.
#pragma once

#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/connection.h"
#include "http/core.h"
#include "http/handler_pool.h"
#include "http/wire.h"

namespace deliverd::http {

constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kBodyPieceBytes = 16 * 1024;  // beyond a header, in the read buffer
constexpr std::size_t kMaxKeptBytes = 16 * 1024;  // a buffer that a body enlarged shrinks to this between two requests
/// After a refusal the client may still be sending. Closing at once would reset the connection, and the client would
/// lose the answer, so this much is read and dropped first.
constexpr std::size_t kMaxDrainBytes = 16 * 1024 * 1024;
constexpr std::size_t kDrainChunkBytes = 16 * 1024;
constexpr Duration kLingerTime = std::chrono::seconds(2);
constexpr std::size_t kMaxJoinedBytes = 16 * 1024;  // a body up to this size goes into one TLS record with its header

/// One connection. Every function runs on the I/O thread, unless it says otherwise.
class Session : public std::enable_shared_from_this<Session> {
public:
    Session(Socket socket, Core& core, bool refused)
        : stream_(std::move(socket), core.tls.get()),
          core_(core),
          refused_(refused),
          delay_(stream_.get_executor()),
          share_(core.budget),
          buffer_(core.options.max_header_bytes + kBodyPieceBytes) {
        if (refused_) {
            ++core_.refusing;
        } else {
            place_ = core_.waiting.insert(core_.waiting.end(), this);
            list_ = &core_.waiting;
        }
    }

    ~Session() {
        leave();
        set_busy(false);
        if (refused_) --core_.refusing;
    }

    void start() {
        error_code ignored;
        ignored = stream_.socket().set_option(tcp::no_delay(true), ignored);
        const auto remote = stream_.socket().remote_endpoint(ignored);
        if (!ignored) remote_address_ = remote.address().to_string(ignored);
        if (!stream_.is_tls()) return begin();
        stream_.expires_after(core_.options.header_timeout);
        stream_.async_handshake([self = shared_from_this()](error_code error) {
            if (!error) return self->begin();
            self->on_handshake_error(error);
        });
    }

    /// Not under way: nothing of a request has arrived, or its response is written.
    [[nodiscard]] bool is_idle() const { return !busy_; }

    void close() {
        leave();
        delay_.cancel();
        error_code ignored;
        ignored = stream_.socket().close(ignored);
    }

    /// Closes without waiting for an answer. A session that waited for one is destroyed.
    void abandon() {
        close();
        const auto last_owner = std::move(waiting_);
    }

    /// Called by the mailbox: keeps the answer for deliver(). On any thread, while the session waits for it.
    void put_answer(Response&& response) noexcept { response_ = std::move(response); }

    /// Writes the answer that the mailbox brought.
    void deliver() {
        const auto self = std::move(waiting_);
        const bool unsound = response_.status < 200 || response_.status > 599;
        if (unsound || (response_.status == 500 && response_.body.empty())) {
            response_ = core_.error(500, "INTERNAL_ERROR", "the request could not be handled");
        }
        write_after_delay();
    }

private:
    void begin() {
        if (refused_) return fail({503, "TOO_MANY_CONNECTIONS", "too many connections: try again later"});
        await_request(core_.options.header_timeout);
    }

    void on_handshake_error(error_code error) {
        stream_.end_tls();
        if (is_plain_http(error)) return fail({400, "BAD_REQUEST", "this port uses TLS: use https:// in the URL"});
        linger();  // the client must be able to read OpenSSL's alert
    }

    /// Takes the last place of `list`.
    void enter(std::list<Session*>& list) {
        if (list_ == nullptr) return;  // refused or closed
        list.splice(list.end(), *list_, place_);
        list_ = &list;
    }

    void leave() {
        if (list_ != nullptr) list_->erase(place_);
        list_ = nullptr;
    }

    void set_busy(bool busy) {
        if (busy == busy_) return;
        busy_ = busy;
        core_.busy = busy ? core_.busy + 1 : core_.busy - 1;
        if (core_.draining && core_.busy == 0) core_.on_quiet();
    }

    void await_request(Duration patience) {
        if (core_.draining) return linger();
        enter(core_.waiting);
        forget_request();
        if (buffer_.size() == 0 && buffer_.capacity() > kMaxKeptBytes) buffer_.shrink_to_fit();
        parser_.emplace();
        parser_->header_limit(static_cast<std::uint32_t>(core_.options.max_header_bytes));
        parser_->body_limit(core_.options.max_body_bytes);
        minor_version_ = 1;
        head_only_ = false;
        stream_.expires_after(patience);
        if (buffer_.size() > 0) {  // pipelined behind the previous request
            stream_.expires_after(core_.options.header_timeout);
            return read_header();
        }
        set_busy(false);
        stream_.async_read_some(buffer_.prepare(kReadBytes),
                                [self = shared_from_this(), first = requests_++ == 0](error_code error, std::size_t n) {
                                    if (error) return self->close();
                                    self->buffer_.commit(n);
                                    self->set_busy(true);
                                    // The first request's time runs from the accept.
                                    if (!first) self->stream_.expires_after(self->core_.options.header_timeout);
                                    self->read_header();
                                });
    }

    void read_header() {
        beast::http::async_read_header(
            stream_, buffer_, *parser_,
            [self = shared_from_this()](error_code error, std::size_t bytes) { self->on_header(error, bytes); });
    }

    void on_header(error_code error, std::size_t bytes) {
        if (list_ == nullptr) return;  // closed meanwhile to make room for another connection
        // If the whole header arrives at once, the parser limits the first line and the fields separately.
        if (!error && bytes > core_.options.max_header_bytes) error = beast::http::error::header_limit;
        if (error) return on_read_error(error);
        const auto& request = parser_->get();
        minor_version_ = request.version() % 10;
        head_only_ = request.method() == beast::http::verb::head;
        if (const auto refusal = refusal_of(*parser_)) return fail(*refusal);
        if (parser_->is_done()) return dispatch();
        // Copied now: the parser later adds the trailer of a chunked body to these headers, unchecked.
        request_ = request_of(request);
        if (core_.options.refuse) {
            if (auto refusal = core_.options.refuse(*request_)) return refuse(std::move(*refusal));
        }
        enter(core_.reading);
        stream_.expires_after(core_.options.body_timeout);
        if (request.version() == 11 && request.count(beast::http::field::expect) > 0) return write_continue();
        read_body();
    }

    void write_continue() {
        static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        asio::async_write(stream_, asio::buffer(kContinue), [self = shared_from_this()](error_code error, std::size_t) {
            if (error) return self->close();
            if (self->list_ == nullptr) return;  // closed meanwhile to make room for another connection
            self->read_body();
        });
    }

    void read_body() {
        beast::http::async_read_some(
            stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
                if (self->list_ == nullptr) return;  // closed meanwhile to make room for another connection
                if (error) return self->on_read_error(error);
                if (!self->share_.grow_to(self->parser_->get().body().size())) {
                    return self->fail(
                        {503, "OVERLOADED", "the bodies of all requests take too much memory: try again later"});
                }
                if (self->parser_->is_done()) return self->dispatch();
                self->read_body();
            });
    }

    void on_read_error(error_code error) {
        if (const auto refusal = refusal_of(error)) return fail(*refusal);
        close();
    }

    void fail(const Refusal& refusal) { refuse(core_.error(refusal.status, refusal.code, refusal.message)); }

    /// The connection ends with this: what follows in the stream cannot be trusted to be a request.
    void refuse(Response response) {
        keep_alive_ = false;
        response_ = std::move(response);
        forget_request();
        write_after_delay();
    }

    /// Gives back the memory of what was read so far.
    void forget_request() {
        parser_.reset();
        request_.reset();
        share_.clear();
    }

    [[nodiscard]] Request request_of(const Parser::value_type& message) const {
        Request request;
        request.method = message.method_string();
        const auto target = parse_target(message.target());
        request.path = target->path;
        request.query = target->query;
        for (const auto& field : message) {
            const bool replaced = !target->authority.empty() && field.name() == beast::http::field::host;
            request.headers.emplace_back(field.name_string(),
                                         replaced ? target->authority : std::string_view(field.value()));
        }
        request.remote_address = remote_address_;
        return request;
    }

    void dispatch() {
        enter(core_.serving);
        auto message = parser_->release();
        keep_alive_ = message.keep_alive();
        auto exchange = std::make_shared<Exchange>(share_);
        exchange->mailbox = core_.mailbox;
        exchange->session = this;
        Request& request = exchange->request;
        request = request_ ? *std::exchange(request_, std::nullopt) : request_of(message);
        request.body = std::move(message.body());
        stream_.expires_never();
        waiting_ = shared_from_this();
        if (core_.options.is_quick && core_.options.is_quick(request)) return run(core_, exchange);
        HandlerPool::Task task = [&core = core_, exchange = std::move(exchange)] { run(core, exchange); };
        if (core_.pool.try_submit(task)) return;
        waiting_.reset();  // not the last owner: the caller is one
        response_ = core_.error(503, "OVERLOADED", "too many requests are waiting: try again later");
        write();
    }

    /// On a thread of the pool, or for a quick request on the I/O thread. A handler that throws drops its reply, which
    /// answers 500.
    static void run(const Core& core, const std::shared_ptr<Exchange>& exchange) noexcept {
        try {
            core.handler(exchange->request, Reply([exchange](Response response) {
                             exchange->mailbox->put(exchange->session, std::move(response));
                         }));
        } catch (...) {  // the handler's own layer logs what it knows
        }
    }

    /// A connection that is made to wait has no better claim to its place than one that is silent.
    void write_after_delay() {
        if (response_.delay <= Duration::zero() || core_.draining) return write();
        enter(core_.waiting);
        stream_.expires_never();
        delay_.expires_after(response_.delay);
        delay_.async_wait([self = shared_from_this()](error_code) {
            if (self->list_ != nullptr || self->refused_) self->write();
        });
    }

    void write() {
        enter(core_.serving);
        if (core_.draining) keep_alive_ = false;
        const auto reason = beast::http::obsolete_reason(static_cast<beast::http::status>(response_.status));
        head_ = response_head(response_, {minor_version_, keep_alive_, {reason.data(), reason.size()}},
                              core_.clock.wall_now());
        if (head_only_ || !status_has_body(response_.status)) response_.body.clear();
        if (stream_.is_tls() && response_.body.size() <= kMaxJoinedBytes) {
            head_ += response_.body;
            response_.body.clear();
        }
        stream_.expires_after(core_.options.write_timeout);
        asio::async_write(stream_,
                          std::array{asio::buffer(std::as_const(head_)), asio::buffer(std::as_const(response_.body))},
                          [self = shared_from_this()](error_code error, std::size_t) {
                              if (error) return self->close();
                              if (!self->keep_alive_) return self->linger();
                              self->await_request(self->core_.options.idle_timeout);
                          });
    }

    void linger() {
        enter(core_.waiting);
        stream_.expires_after(kLingerTime);
        buffer_.clear();
        buffer_.shrink_to_fit();
        if (stream_.is_tls()) {
            stream_.async_shutdown([self = shared_from_this()](error_code) { self->finish_sending(); });
        } else {
            finish_sending();
        }
        set_busy(false);  // last: a stopping server lets TLS announce the end of the stream first
    }

    void finish_sending() {
        stream_.end_tls();
        error_code ignored;
        ignored = stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
        drain();
    }

    void drain() {
        stream_.async_read_some(buffer_.prepare(kDrainChunkBytes),
                                [self = shared_from_this()](error_code error, std::size_t n) {
                                    self->drained_bytes_ += n;
                                    if (error || self->drained_bytes_ >= kMaxDrainBytes) return self->close();
                                    self->drain();
                                });
    }

    Connection stream_;
    Core& core_;
    const bool refused_;
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor>
        delay_;
    BodyShare share_;                      // of the body that is being read
    std::list<Session*>* list_ = nullptr;  // where place_ is
    std::list<Session*>::iterator place_;
    beast::flat_buffer buffer_;
    std::optional<Parser> parser_;
    std::optional<Request> request_;  // by its header, while its body is read
    std::string remote_address_;
    std::shared_ptr<Session> waiting_;  // itself, while only a reply can resume it
    Response response_;
    std::string head_;
    std::size_t requests_ = 0;
    std::size_t drained_bytes_ = 0;
    unsigned minor_version_ = 1;
    bool head_only_ = false;
    bool keep_alive_ = true;
    bool busy_ = false;
};

inline void Mailbox::put(Session* session, Response&& response) noexcept {
    try {
        const MutexLock lock(mutex_);
        if (closed_) return;
        session->put_answer(std::move(response));
        answered_.push_back(session);
        if (awake_) return;
        wake_();
        awake_ = true;
    } catch (...) {  // out of memory for the wake-up: the wake-up of the next answer delivers this one too
    }
}

}  // namespace deliverd::http
