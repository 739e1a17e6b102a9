#include "store/postgres/connection/refusal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <vector>

#include "client/postgres_call.h"
#include "deliverd/error_codes.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::size_t kSqlstateLength = 5;
constexpr int kMaxPort = 65535;

/// Takes "28P01: " out of "FATAL:  28P01: password …" and returns it, or "".
std::string take_sqlstate(std::string& line) {
    const std::string_view kAfterSeverity = ":  ";
    for (std::size_t at = line.find(kAfterSeverity); at != std::string::npos; at = line.find(kAfterSeverity, at + 1)) {
        const std::size_t begin = at + kAfterSeverity.size();
        const std::string state = line.substr(begin, kSqlstateLength);
        const bool is_state = state.size() == kSqlstateLength && std::ranges::all_of(state, [](char c) {
                                  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
                              });
        if (!is_state || line.compare(begin + kSqlstateLength, 2, ": ") != 0) continue;
        line.erase(begin, kSqlstateLength + 2);
        return state;
    }
    return {};
}

struct ServerMessage {
    std::string text;
    std::string sqlstate;
};

/// One line without the server's source locations. Two attempts (with and without TLS) that fail alike give one text.
ServerMessage read_verbose(std::string_view message) {
    ServerMessage said;
    std::vector<std::string> lines;
    while (!message.empty()) {
        std::string line(message.substr(0, message.find('\n')));
        message.remove_prefix(std::min(line.size() + 1, message.size()));
        if (line.empty() || line.starts_with("LOCATION:")) continue;
        if (line.starts_with("\tIs the server running")) continue;  // our own advice covers it
        if (std::string state = take_sqlstate(line); !state.empty()) said.sqlstate = std::move(state);
        if (std::ranges::find(lines, line) != lines.end()) continue;
        if (!lines.empty()) said.text += ' ';
        said.text += line;
        lines.push_back(std::move(line));
    }
    return said;
}

// Where the server asks for a password and there is none, libpq gives up by itself: there is no SQLSTATE then.
std::string_view advice_for(std::string_view sqlstate, bool needs_password) {
    if (needs_password) return "the server wants a password: give database.password_file, or one in the URL";
    if (sqlstate == "28P01") return "check the user and the password (database.password_file, or the URL's)";
    if (sqlstate == "28000") return "create this role on the server, or allow it from this host in pg_hba.conf";
    if (sqlstate == "3D000") return "create the database, or correct its name in the URL";
    if (sqlstate == "42501") return "grant this user connect on the database";
    if (sqlstate == "53300") return "raise the server's max_connections, or lower database.max_open_conns";
    if (sqlstate == "57P03") return "wait until the server is ready";
    if (sqlstate.empty()) return "check that the server runs, and host, port and sslmode";
    return "see the server's log";
}

/// libpq reads it, so that both forms, and every setting, mean the same here and there. The settings that it has, by
/// libpq's names; none when it cannot be read.
std::optional<std::map<std::string, std::string>> parse_conninfo(const std::string& conninfo) {
    struct Free {
        void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
    };
    char* fault = nullptr;
    const std::unique_ptr<PQconninfoOption, Free> options(PQconninfoParse(conninfo.c_str(), &fault));
    PQfreemem(fault);  // it may quote a password
    if (options == nullptr) return std::nullopt;
    std::map<std::string, std::string> settings;
    for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
        if (option->val != nullptr) settings.emplace(option->keyword, option->val);
    }
    return settings;
}

bool is_port(std::string_view text) {
    int port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= kMaxPort;
}

/// One for each host, or one for all; an empty one is the default.
bool are_ports(std::string_view text) {
    return std::ranges::all_of(text | std::views::split(','), [](const auto& part) {
        const std::string_view one(part.begin(), part.end());
        return one.empty() || is_port(one);
    });
}

/// libpq looks at these two only when it connects, and `config check` does not connect.
bool is_ssl_mode(std::string_view text) {
    constexpr std::array<std::string_view, 6> kModes = {"disable", "allow",     "prefer",
                                                        "require", "verify-ca", "verify-full"};
    return text.empty() || std::ranges::find(kModes, text) != kModes.end();
}

}  // namespace

Error refusal_of(const PGconn* connection) {
    const ServerMessage said = read_verbose(PQerrorMessage(connection));
    const std::string_view advice = advice_for(said.sqlstate, PQconnectionNeedsPassword(connection) == 1);
    return Error{ErrorClass::retryable, codes::kDbUnreachable,
                 "PostgreSQL: " + client::trimmed_line(said.text) + "; " + std::string(advice)};
}

std::string sqlstate_of_refusal(const PGconn* connection) {
    return read_verbose(PQerrorMessage(connection)).sqlstate;
}

std::string place_of(const std::string& conninfo) {
    const auto settings = parse_conninfo(conninfo).value_or(std::map<std::string, std::string>());
    const auto value = [&](const char* name, const std::string& otherwise) {
        const auto found = settings.find(name);
        return found == settings.end() || found->second.empty() ? otherwise : found->second;
    };
    return value("host", value("hostaddr", "localhost")) + ":" + value("port", "5432") + "/" + value("dbname", "");
}

Result<void> check_readable(const std::string& conninfo) {
    const auto settings = parse_conninfo(conninfo);
    if (!settings) {
        return permanent(codes::kBadArgument,
                         "the database URL cannot be read: write postgres://user@host:5432/name, with special "
                         "characters percent-encoded");
    }
    if (const auto port = settings->find("port"); port != settings->end() && !are_ports(port->second)) {
        return permanent(codes::kBadArgument,  // without the text: it may be a piece of a password
                         "the database URL's port is not a number from 1 to 65535; special characters in a "
                         "password must be percent-encoded");
    }
    if (const auto mode = settings->find("sslmode"); mode != settings->end() && !is_ssl_mode(mode->second)) {
        return permanent(codes::kBadArgument, "sslmode \"" + mode->second +
                                                  "\" does not exist; it is one of: disable, allow, prefer, require, "
                                                  "verify-ca, verify-full");
    }
    return {};
}

}  // namespace deliverd::store::postgres
