// A client's bytes, through a real session to the API's own dispatcher. However the bytes are split, the same requests
// result. Each request is valid and gets one answer. A refusal is the last answer. No answer is a 500.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "api/api.h"
#include "api/dlq_query.h"
#include "api/doors.h"
#include "api/router.h"
#include "base/json_check.h"
#include "base/log.h"
#include "base/text.h"
#include "http/session.h"
#include "http/wire.h"
#include "orders/order_request.h"
#include "require.h"
#include "store/letter_rules.h"

namespace deliverd::fuzz {
namespace {

using namespace http;

// Small, so that inputs reach them.
constexpr std::size_t kMaxHeaderBytes = 512;
constexpr std::size_t kMaxBodyBytes = 1024;

const api::DoorOptions kDoors{.check_host = true, .check_origin = true, .allowed_hosts = {"a.test", "b.test:8080"}};

Response listing(const api::Call& call) {
    const auto asked = api::read_dlq_listing(call.request.query);
    if (!asked.problems.empty()) return api::error_response(400, "BAD", "bad", call.request_id, asked.problems);
    require(store::check_letter_query(asked.query).has_value(), "a valid query can be asked of a store");
    require(asked.query.limit <= api::kMaxDlqPageSize && (asked.query.after || asked.page), "a page has a size");
    const auto decoded = api::percent_decode(url_encoded(call.path_values.at(0)));
    require(decoded == call.path_values.at(0), "an escaped path is decoded unchanged");
    return {};
}

Response purge(const api::Call& call) {
    const auto asked = api::read_dlq_purge(call.request.query);
    if (!asked.problems.empty()) return api::error_response(400, "BAD", "bad", call.request_id, asked.problems);
    require(asked.limit >= 1 && asked.limit <= api::kMaxDlqPurge && asked.age >= Duration::zero(),
            "a purge is bounded");
    return {};
}

Response order(const api::Call& call) {
    SeededRandom random(1);
    const auto read = orders::read_order(call.request.header("Idempotency-Key"), call.request.body, {}, random);
    if (read.order) return {201, {}, "application/json", read.order->json};
    std::vector<api::Detail> details;
    for (const auto& detail : read.refusal.details) details.push_back({detail.field, detail.message});
    return api::error_response(read.refusal.status, read.refusal.code, read.refusal.message, call.request_id, details);
}

api::Handler make_api() {
    static NullLog log;
    std::vector<api::Route> routes;
    routes.push_back({"GET", "/api/v1/dlq/{topic}/messages", api::Role::none, listing});
    routes.push_back({"DELETE", "/api/v1/dlq/messages", api::Role::none, purge});
    routes.push_back({"POST", "/orders", api::Role::none, order});
    return api::make_handler(std::move(routes), {.enabled = false, .tokens = {}, .doors = kDoors}, log);
}

void check_request(const Request& request) {
    require(is_sane_method(request.method), "a method is valid");
    require(request.path == "*" || request.path.starts_with('/'), "a path is valid");
    require(request.body.size() <= kMaxBodyBytes, "a body is no longer than its limit");
    std::string target = request.path;
    if (!request.query.empty()) target += "?" + request.query;
    const auto again = parse_target(target);
    require(again && again->path == request.path && again->query == request.query && again->authority.empty(),
            "path and query form the same target again");
    std::size_t hosts = 0;
    std::size_t codings = 0;
    std::size_t lengths = 0;
    for (const auto& [name, value] : request.headers) {
        require(!name.empty() && name.find_first_of(std::string_view("\r\n\0 :", 5)) == std::string::npos,
                "a header's name is valid");
        require(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos,
                "a header's value is one line");
        hosts += equal_ignoring_case(name, "Host") ? 1 : 0;
        codings += equal_ignoring_case(name, "Transfer-Encoding") ? 1 : 0;
        if (!equal_ignoring_case(name, "Content-Length")) continue;
        ++lengths;
        std::size_t length = 0;
        std::from_chars(value.data(), value.data() + value.size(), length);
        require(length == request.body.size(), "a body has the announced length");
    }
    require(hosts <= 1, "a request has one Host");
    require(codings == 0 || (codings == 1 && lengths == 0), "a request announces its length in one way");
    const std::string_view host = request.header("Host");
    if (api::is_own_host(host, kDoors)) require(api::is_host_name(host), "our own host name is valid");
}

/// The results of one connection's bytes.
struct Outcome {
    std::vector<Request> requests;
    std::string answered;
};

/// One server without a listener and without threads: the reading thread handles requests.
class World {
public:
    Outcome serve(std::string_view bytes, std::size_t piece) {
        outcome_ = {};
        int ends[2];
        require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a socket pair can be created");
        client_ = ends[0];
        Socket socket(io_);
        error_code error;
        error = socket.assign(tcp::v4(), ends[1], error);
        require(!error, "a session can have the socket");
        std::make_shared<Session>(std::move(socket), core_, false)->start();
        while (!bytes.empty()) {
            const std::string_view part = bytes.substr(0, piece);
            bytes.remove_prefix(part.size());
            if (::send(client_, part.data(), part.size(), MSG_NOSIGNAL) < 0)
                break;  // the server has closed the connection
            work();
        }
        ::shutdown(client_, SHUT_WR);
        do work();
        while (!io_.stopped());  // a session that never ends becomes a timeout
        ::close(client_);
        require(core_.waiting.empty() && core_.reading.empty() && core_.serving.empty() && core_.busy == 0,
                "an ended connection leaves nothing in the server");
        return std::move(outcome_);
    }

private:
    static ServerOptions options(World* world) {
        ServerOptions options;
        options.handler_threads = 1;  // it never has work
        options.max_header_bytes = kMaxHeaderBytes;
        options.max_body_bytes = kMaxBodyBytes;
        options.is_quick = [](const Request&) { return true; };
        options.refuse = [world](const Request& head) {
            auto refusal = world->api_.refuse(head);
            if (refusal) refusal->delay = {};
            return refusal;
        };
        return options;
    }

    void handle(const Request& request, const Reply& reply) {
        check_request(request);
        outcome_.requests.push_back(request);
        api_(request, Reply([reply](Response response) {
                 response.delay = {};  // delays of repeated refusals are another test's subject
                 reply(std::move(response));
             }));
    }

    void work() {
        io_.restart();
        io_.poll();
        char chunk[16384];
        for (ssize_t count = 0; (count = ::recv(client_, chunk, sizeof chunk, MSG_DONTWAIT)) > 0;) {
            outcome_.answered.append(chunk, static_cast<std::size_t>(count));
        }
    }

    void deliver() {
        std::vector<Session*> answered;
        core_.mailbox->take(answered);
        for (Session* session : answered) session->deliver();
    }

    const api::Handler api_ = make_api();
    Outcome outcome_;
    int client_ = -1;
    Core core_{options(this), [this](const Request& request, const Reply& reply) { handle(request, reply); },
               api::make_error_body(),
               std::make_shared<Mailbox>(1, [this] { asio::post(io_, [this] { deliver(); }); })};
    asio::io_context io_{1};
};

std::string_view header_of(std::string_view head, std::string_view name) {
    const std::size_t at = head.find(name);
    if (at == std::string_view::npos) return {};
    head.remove_prefix(at + name.size());
    return head.substr(0, head.find("\r\n"));
}

/// The statuses of the answers. Fails if the output is not a sequence of answers.
std::vector<int> statuses_of(const Outcome& outcome) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    std::vector<int> statuses;
    std::string_view rest = outcome.answered;
    while (!rest.empty()) {
        if (rest.starts_with(kContinue)) {
            rest.remove_prefix(kContinue.size());
            continue;
        }
        const std::size_t end = rest.find("\r\n\r\n");
        require(rest.starts_with("HTTP/1.1 ") && end != std::string_view::npos, "an answer has a header");
        const std::string_view head = rest.substr(0, end + 2);
        rest.remove_prefix(end + 4);
        int status = 0;
        std::from_chars(head.data() + 9, head.data() + 12, status);
        std::size_t length = 0;
        const std::string_view told = header_of(head, "\r\nContent-Length: ");
        std::from_chars(told.data(), told.data() + told.size(), length);
        const bool is_last = statuses.size() >= outcome.requests.size();  // the refused request may have been a HEAD
        const bool bodiless = is_last ? rest.empty() : outcome.requests[statuses.size()].method == "HEAD";
        if (bodiless) length = 0;
        require(length <= rest.size(), "an answer has its body");
        require(length == 0 || !json_problem(rest.substr(0, length), JsonKind::object), "an answer is JSON");
        require(status >= 200 && status < 600 && status != 500, "an answer has a status, and nothing failed");
        require(!is_last || header_of(head, "\r\nConnection: ") == "close", "a refusal ends the connection");
        rest.remove_prefix(length);
        statuses.push_back(status);
    }
    require(statuses.size() == outcome.requests.size() || statuses.size() == outcome.requests.size() + 1,
            "every request has one answer, and at most one refusal follows");
    return statuses;
}

/// A fault in an unfinished header is answered only if the header arrived in one piece. If it arrives in several, the
/// session looks only for its end and its size.
bool is_of_bad_header(int status) {
    return status == 400 || status == 431;
}

/// Compares answers, of which the first `requests` are not refusals.
bool same_answers(std::vector<int> a, std::vector<int> b, std::size_t requests) {
    for (std::vector<int>* answers : {&a, &b}) {
        if (answers->size() > requests && is_of_bad_header(answers->back())) answers->pop_back();
    }
    return a == b;
}

bool same(const Request& a, const Request& b) {
    return std::tie(a.method, a.path, a.query, a.headers, a.body) ==
           std::tie(b.method, b.path, b.query, b.headers, b.body);
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    static fuzz::World& world = *new fuzz::World;
    const std::string_view bytes = fuzz::text_of(data, size);
    const auto whole = world.serve(bytes, bytes.size());
    const auto pieces = world.serve(bytes, 1 + bytes.size() % 61);
    fuzz::require(std::ranges::equal(whole.requests, pieces.requests, fuzz::same), "cuts change no request");
    fuzz::require(fuzz::same_answers(fuzz::statuses_of(whole), fuzz::statuses_of(pieces), whole.requests.size()),
                  "cuts change no answer");
    return 0;
}
