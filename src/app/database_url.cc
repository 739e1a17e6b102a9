#include "app/database_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace deliverd::app {

namespace {

constexpr std::string_view kMask = "***";
constexpr std::string_view kSqlite = "sqlite:";

bool is_postgres(std::string_view url) {
    return url.starts_with("postgres://") || url.starts_with("postgresql://");
}

/// Where the password between user and host stands: [begin, end).
struct Span {
    std::size_t begin;
    std::size_t end;
};

std::optional<Span> password_in_authority(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos) return std::nullopt;
    const std::size_t start = scheme + 3;
    // An unescaped '/' or '?' in a password is wrong, but must not show the password: look for the last '@'
    // of the whole text before the query's first '='.
    const std::size_t limit = std::min(url.find('=', start), url.size());
    const std::size_t at = url.substr(0, limit).rfind('@');
    if (at == std::string_view::npos || at < start) return std::nullopt;
    const std::size_t colon = url.find(':', start);
    if (colon == std::string_view::npos || colon >= at) return std::nullopt;
    return Span{colon + 1, at};
}

std::optional<Span> find_parameter(std::string_view url, std::string_view key, std::size_t from) {
    for (std::size_t at = url.find(key, from); at != std::string_view::npos; at = url.find(key, at + 1)) {
        if (at == 0 || (url[at - 1] != '?' && url[at - 1] != '&')) continue;
        const std::size_t begin = at + key.size();
        return Span{begin, std::min(url.find('&', begin), url.size())};
    }
    return std::nullopt;
}

std::string percent_encode(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '_' || c == '.' || c == '~';
        if (plain) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

Result<DatabaseTarget> parse_sqlite(std::string_view path) {
    if (path.empty()) return permanent("bad_url", "sqlite: names no file; write sqlite:./deliverd.db");
    if (path.starts_with(":memory:") || path.find("mode=memory") != std::string_view::npos) {
        return permanent("bad_url",
                         "sqlite::memory: would vanish with its connection, and deliverd uses several; name a file, "
                         "such as sqlite:/tmp/deliverd.db");
    }
    if (path.starts_with("//")) {
        return permanent("bad_url", fmt::format("sqlite:{} has slashes of a URL; write sqlite: and the path, such as "
                                                "sqlite:/var/lib/deliverd.db",
                                                path));
    }
    return DatabaseTarget{DatabaseTarget::Kind::sqlite, std::string(path)};
}

}  // namespace

Result<DatabaseTarget> parse_database_url(std::string_view url, std::string_view password) {
    if (url.find('\0') != std::string_view::npos) return permanent("bad_url", "the database URL holds a NUL byte");
    if (url.starts_with(kSqlite)) return parse_sqlite(url.substr(kSqlite.size()));
    if (!is_postgres(url)) {
        return permanent("bad_url", fmt::format("database URL \"{}\" is not one deliverd knows; write "
                                                "postgres://user@host:5432/name or sqlite:PATH",
                                                mask_url(url)));
    }
    std::string target(url);
    const bool has_password = password_in_authority(url) || find_parameter(url, "password=", 0);
    if (!password.empty() && !has_password) {
        target += target.find('?') == std::string::npos ? '?' : '&';
        target += "password=" + percent_encode(password);
    }
    return DatabaseTarget{DatabaseTarget::Kind::postgres, std::move(target)};
}

std::string mask_url(std::string_view url) {
    std::string out(url);
    if (const auto span = password_in_authority(out)) out.replace(span->begin, span->end - span->begin, kMask);
    for (const std::string_view key : {"password=", "sslpassword="}) {
        for (auto span = find_parameter(out, key, 0); span; span = find_parameter(out, key, span->begin)) {
            out.replace(span->begin, span->end - span->begin, kMask);
        }
    }
    return out;
}

std::string quote_conninfo(std::string_view word) {
    std::string out = "'";
    for (const char c : word) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

}  // namespace deliverd::app
