// What passes between a server and its user: requests, responses, and the functions that turn one into the other.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace deliverd::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
    std::string method;  // upper case
    std::string path;    // percent-encoded as received, without the query
    std::string query;   // without '?'
    Headers headers;
    std::string body;
    std::string remote_address;

    /// First header with this name, compared without case; empty when absent.
    [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Response {
    int status = 200;
    Headers headers;
    std::string content_type = "application/json";
    std::string body;
    Duration delay{};  // the server waits this long before it writes the response
};

/// Called on one of `handler_threads` threads; may block (but see `is_quick`). An exception becomes a bare 500.
using Handler = std::function<Response(const Request&)>;

/// Answers one request: once, from any thread, also long after the handler has returned. All copies are the same reply;
/// a second answer is ignored. If the last copy is destroyed without an answer, the client gets a bare 500. After the
/// server has stopped, an answer has no effect; a reply may outlive the server. Does not block.
class Reply {
public:
    explicit Reply(std::function<void(Response)> deliver);
    void operator()(Response response) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// A Handler whose answer may come later, so that a waiting request holds no thread. The request stays valid until it
/// is answered. A connection has one request at a time, so at most `max_connections` requests wait.
using DeferredHandler = std::function<void(const Request&, Reply)>;

/// Makes the response for errors that the server itself finds (malformed request, body too large, …), so that all
/// errors look alike. Called on the I/O thread: must not block.
using ErrorBody = std::function<Response(int status, std::string_view code, std::string_view message)>;

/// Sees a request whose body has not been read; a response refuses it. Called on the I/O thread: must not block.
using Refuse = std::function<std::optional<Response>(const Request&)>;

}  // namespace deliverd::http
