// For tests: what a real RabbitMQ server has, seen by another client, and servers of a test's own.
#pragma once

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sink/rabbitmq/connection.h"
#include "sink/rabbitmq/properties.h"

namespace deliverd::sink {

/// One of the variables that tests/harness/with_servers.py exports.
inline std::string rabbit_variable(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') {
        throw std::runtime_error(std::string(name) + " is not set: run ./dev test, or harness.with_servers");
    }
    return value;
}

inline std::string rabbit_url() {
    return rabbit_variable("DELIVERD_TEST_RABBITMQ_URL");
}

/// A name nobody else uses.
inline std::string fresh_name(const std::string& what) {
    static std::atomic<int> count = 0;
    return what + "-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

struct GotMessage {
    std::string body;
    std::string exchange;
    std::string routing_key;
    amqp_flags_t flags = 0;
    std::string message_id;
    std::string type;
    std::string content_type;
    std::uint64_t timestamp = 0;
    int delivery_mode = 0;
    std::map<std::string, std::string> headers;
    bool headers_are_text = true;
};

/// A client of the test's own. Throws where the server does not do as it is told.
class RabbitClient {
public:
    explicit RabbitClient(const std::string& url, int heartbeat = 0)
        : state_(amqp_new_connection(), amqp_destroy_connection) {
        const auto parts = parse_amqp_url(url);
        auto* socket = amqp_tcp_socket_new(state_.get());
        if (amqp_socket_open(socket, parts->server.host.c_str(), parts->server.port) != AMQP_STATUS_OK) {
            throw std::runtime_error("no connection to RabbitMQ");
        }
        expect(amqp_login(state_.get(), parts->vhost.c_str(), 0, 131072, heartbeat, AMQP_SASL_METHOD_PLAIN,
                          parts->server.user.c_str(), parts->server.password.c_str()));
        amqp_channel_open(state_.get(), 1);
        expect(amqp_get_rpc_reply(state_.get()));
    }

    /// Says nothing, not even a heartbeat, until the server closes the connection.
    bool wait_until_closed(std::chrono::milliseconds patience) {
        const auto end = std::chrono::steady_clock::now() + patience;
        char bytes[4096];
        while (true) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
            pollfd watched{amqp_get_sockfd(state_.get()), POLLIN, 0};
            if (left.count() <= 0 || ::poll(&watched, 1, static_cast<int>(left.count())) <= 0) return false;
            if (::recv(watched.fd, bytes, sizeof bytes, 0) <= 0) return true;
        }
    }

    void declare_exchange(const std::string& name, const std::string& kind = "topic") {
        amqp_exchange_declare(state_.get(), 1, amqp_bytes_of(name), amqp_bytes_of(kind), 0, 1, 0, 0, amqp_empty_table);
        expect(amqp_get_rpc_reply(state_.get()));
    }
    void delete_exchange(const std::string& name) {
        amqp_exchange_delete(state_.get(), 1, amqp_bytes_of(name), 0);
        expect(amqp_get_rpc_reply(state_.get()));
    }
    /// `max_length`: more are refused with basic.nack; 0: any number.
    void declare_queue(const std::string& name, int max_length = 0) {
        amqp_table_entry_t entries[2]{};
        entries[0].key = amqp_bytes_of("x-max-length");
        entries[0].value.kind = AMQP_FIELD_KIND_I32;
        entries[0].value.value.i32 = max_length;
        entries[1].key = amqp_bytes_of("x-overflow");
        entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
        entries[1].value.value.bytes = amqp_bytes_of("reject-publish");
        amqp_queue_declare(state_.get(), 1, amqp_bytes_of(name), 0, 1, 0, 0, {max_length > 0 ? 2 : 0, entries});
        expect(amqp_get_rpc_reply(state_.get()));
    }
    void bind(const std::string& queue, const std::string& exchange, const std::string& key) {
        amqp_queue_bind(state_.get(), 1, amqp_bytes_of(queue), amqp_bytes_of(exchange), amqp_bytes_of(key),
                        amqp_empty_table);
        expect(amqp_get_rpc_reply(state_.get()));
    }
    void delete_queue(const std::string& name) {
        amqp_queue_delete(state_.get(), 1, amqp_bytes_of(name), 0, 0);
        expect(amqp_get_rpc_reply(state_.get()));
    }

    /// All that is in the queue, in its order, and removes it.
    std::vector<GotMessage> take_all(const std::string& queue) {
        std::vector<GotMessage> out;
        while (true) {
            amqp_maybe_release_buffers(state_.get());
            const auto reply = amqp_basic_get(state_.get(), 1, amqp_bytes_of(queue), 1);
            expect(reply);
            if (reply.reply.id != AMQP_BASIC_GET_OK_METHOD) return out;
            const auto* got = static_cast<const amqp_basic_get_ok_t*>(reply.reply.decoded);
            GotMessage message;
            message.exchange = text(got->exchange);
            message.routing_key = text(got->routing_key);
            amqp_message_t raw{};
            expect(amqp_read_message(state_.get(), 1, &raw, 0));
            fill(message, raw);
            amqp_destroy_message(&raw);
            out.push_back(std::move(message));
        }
    }

private:
    static std::string text(amqp_bytes_t bytes) { return {static_cast<const char*>(bytes.bytes), bytes.len}; }

    static void fill(GotMessage& out, const amqp_message_t& raw) {
        const auto& properties = raw.properties;
        out.body = text(raw.body);
        out.flags = properties._flags;
        if ((out.flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0) out.message_id = text(properties.message_id);
        if ((out.flags & AMQP_BASIC_TYPE_FLAG) != 0) out.type = text(properties.type);
        if ((out.flags & AMQP_BASIC_CONTENT_TYPE_FLAG) != 0) out.content_type = text(properties.content_type);
        if ((out.flags & AMQP_BASIC_TIMESTAMP_FLAG) != 0) out.timestamp = properties.timestamp;
        if ((out.flags & AMQP_BASIC_DELIVERY_MODE_FLAG) != 0) out.delivery_mode = properties.delivery_mode;
        for (int i = 0; i < properties.headers.num_entries; ++i) {
            const auto& entry = properties.headers.entries[i];
            out.headers_are_text = out.headers_are_text && entry.value.kind == AMQP_FIELD_KIND_UTF8;
            out.headers[text(entry.key)] = text(entry.value.value.bytes);
        }
    }

    static void expect(const amqp_rpc_reply_t& reply) {
        if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
        throw std::runtime_error(reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                                     ? amqp_error_string2(reply.library_error)
                                     : "RabbitMQ refused what the test asked for");
    }

    std::unique_ptr<amqp_connection_state_t_, int (*)(amqp_connection_state_t)> state_;
};

/// A server that a test may kill: tests/harness/rabbitmq.py says what tell() understands.
class OwnRabbit {
public:
    OwnRabbit() {
        int to_child[2];
        int from_child[2];
        if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
        const std::string command = rabbit_variable("DELIVERD_TEST_RABBITMQ_OWN");
        child_ = ::fork();
        if (child_ == 0) {
            ::dup2(to_child[0], 0);
            ::dup2(from_child[1], 1);
            ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(to_child[0]);
        ::close(from_child[1]);
        out_ = ::fdopen(to_child[1], "w");
        in_ = ::fdopen(from_child[0], "r");
        const std::string where = line();  // {"url": "…"}
        const auto begin = where.find("amqp://");
        if (begin == std::string::npos) throw std::runtime_error("RabbitMQ did not start");
        url_ = where.substr(begin, where.find('"', begin) - begin);
    }
    ~OwnRabbit() {
        std::fclose(out_);  // its input ends: it removes the server
        ::waitpid(child_, nullptr, 0);
        std::fclose(in_);
    }
    OwnRabbit(const OwnRabbit&) = delete;
    OwnRabbit& operator=(const OwnRabbit&) = delete;

    [[nodiscard]] const std::string& url() const { return url_; }

    /// kill9, start, pause, resume, keep (the queues that are declared), alarm, calm. Returns when it is done.
    void tell(const std::string& word) {
        std::fprintf(out_, "%s\n", word.c_str());
        std::fflush(out_);
        if (line() != "ok\n") throw std::runtime_error("RabbitMQ's keeper could not do: " + word);
    }

private:
    std::string line() {
        std::string out;
        int c = 0;
        while ((c = std::fgetc(in_)) != EOF) {
            out.push_back(static_cast<char>(c));
            if (c == '\n') break;
        }
        return out;
    }

    pid_t child_ = -1;
    FILE* out_ = nullptr;
    FILE* in_ = nullptr;
    std::string url_;
};

}  // namespace deliverd::sink
