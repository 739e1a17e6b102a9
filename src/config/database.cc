#include "base/text.h"
#include "config/finish.h"

namespace deliverd::config {

namespace {

constexpr const char* kUrl = "database.url";
constexpr std::string_view kMask = "***";
constexpr std::string_view kSqlite = "sqlite:";

Failure bad_url(std::string message) {
    return permanent("bad_url", std::move(message));
}

constexpr std::string_view kSchemeEnd = "://";

/// The part between scheme and path. libpq ends it at the first '/', curl also at '?' and '#'.
std::string_view authority_of(std::string_view url, std::string_view ends) {
    const std::string_view rest = url.substr(url.find(kSchemeEnd) + kSchemeEnd.size());
    return rest.substr(0, rest.find_first_of(ends));
}

/// Whether there is a '@' that libpq would take for the end of a password, or for a part of a host or database.
bool has_stray_at(std::string_view url) {
    const std::string_view authority = authority_of(url, "/");
    const std::string_view rest(authority.end(), url.end());
    return std::ranges::count(authority, '@') > 1 || rest.substr(0, rest.find('?')).find('@') != std::string_view::npos;
}

/// Where the first value of the parameter `key` ("password=") at or behind `from` begins; npos: there is none.
std::size_t find_value(std::string_view url, std::string_view key, std::size_t from) {
    std::size_t at = url.find(key, from);
    while (at != std::string_view::npos && (at == 0 || (url[at - 1] != '?' && url[at - 1] != '&'))) {
        at = url.find(key, at + 1);
    }
    return at == std::string_view::npos ? at : at + key.size();
}

bool has_password(std::string_view url) {
    const std::string_view authority = authority_of(url, "/");
    const std::size_t at = authority.find('@');  // as libpq reads it: the first one ends the password
    const bool in_authority =
        at != std::string_view::npos && authority.substr(0, at).find(':') != std::string_view::npos;
    return in_authority || find_value(url, "password=", 0) != std::string_view::npos;
}

Result<DatabaseTarget> parse_sqlite(std::string_view path) {
    if (path.empty()) return bad_url("sqlite: names no file; write sqlite:./deliverd.db");
    if (path.starts_with(":memory:") || path.find("mode=memory") != std::string_view::npos) {
        return bad_url(
            "sqlite::memory: would vanish with its connection, and deliverd uses several; name a file, "
            "such as sqlite:/tmp/deliverd.db");
    }
    if (path.starts_with("//")) {
        return bad_url(
            fmt::format("sqlite:{} has the slashes of a URL; write sqlite: and the path, such as "
                        "sqlite:/var/lib/deliverd.db",
                        path));
    }
    return DatabaseTarget{DatabaseTarget::Kind::sqlite, std::string(path)};
}

/// What names the database, and the files that hold its secrets; empty: none.
struct Source {
    DatabaseSettings settings;
    std::string url_name{};  // what the user wrote the URL to; empty: nobody did
    std::string url_file{};
    std::string password_file{};
};

/// `word` quoted for a libpq key=value string.
std::string quote_conninfo(std::string_view word) {
    std::string out = "'";
    for (const char c : word) {
        if (c == '\'' || c == '\\') out += '\\';
        out += c;
    }
    return out + "'";
}

std::string conninfo_from_keys(const DatabaseSettings& settings) {
    std::string conninfo = fmt::format("host={} port={}", quote_conninfo(*settings.host), settings.port);
    const auto add = [&](const char* key, const std::optional<std::string>& text) {
        if (text) conninfo += fmt::format(" {}={}", key, quote_conninfo(*text));
    };
    add("dbname", settings.name);
    add("user", settings.user);
    add("password", settings.password);
    add("sslmode", settings.ssl_mode);
    add("sslrootcert", settings.ssl_ca_file);
    return conninfo;
}

Result<DatabaseTarget> target_of(const Source& source) {
    const DatabaseSettings& settings = source.settings;
    // DATABASE_URL and --database override the file, whichever form it has.
    if (settings.host && source.url_name == kUrl) {
        return bad_url("database.host and database.url are both given; keep one");
    }
    if (settings.host && source.url_name.empty()) {
        if (!settings.name) return bad_url("database.host is given, but not database.name");
        return DatabaseTarget{DatabaseTarget::Kind::postgres, conninfo_from_keys(settings)};
    }
    auto target = parse_database_url(settings.url, settings.password.value_or(""));
    if (!target) return bad_url(fmt::format("{}: {}", source.url_name, target.error().message));
    if (target->kind != DatabaseTarget::Kind::postgres) return target;
    const auto readable = store::check_conninfo(target->target);
    if (!readable) return bad_url(fmt::format("{}: {}", source.url_name, readable.error().message));
    return target;
}

/// Reads the files again; the first conninfo when they cannot be read or name no PostgreSQL database.
std::string refreshed_conninfo(const Source& source) {
    Source fresh = source;
    const auto read = [](const std::string& file, auto& text) {
        if (file.empty()) return;
        if (auto content = read_secret_file(file); content && !content->empty()) text = std::move(*content);
    };
    read(source.url_file, fresh.settings.url);
    read(source.password_file, fresh.settings.password);
    // A file that is being replaced may be missing for a moment: connections are made all the same.
    auto target = target_of(fresh);
    if (!target || target->kind != DatabaseTarget::Kind::postgres) target = target_of(source);
    return target ? target->target : std::string();
}

}  // namespace

Result<DatabaseTarget> parse_database_url(std::string_view url, std::string_view password) {
    // libpq takes a C string: it would connect to what is before the NUL.
    if (url.find('\0') != std::string_view::npos) return bad_url("the database URL has a NUL byte");
    if (url.starts_with(kSqlite)) return parse_sqlite(url.substr(kSqlite.size()));
    if (!url.starts_with("postgres://") && !url.starts_with("postgresql://")) {
        // Showing "db.sqlite" helps; text with keys, or users and hosts, may hold a password anywhere.
        return bad_url(
            fmt::format("database URL \"{}\" has an unknown scheme; write "
                        "postgres://user@host:5432/name or sqlite:PATH",
                        mask_url(url)));
    }
    if (has_stray_at(url)) {
        return bad_url(
            "the database URL has an extra '@', so its password cannot be separated from its host; "
            "percent-encode special characters in the password: write %40 for @, %2F for /");
    }
    std::string target(url);
    if (!password.empty() && !has_password(url)) {
        // As a parameter: it needs no user in the URL, and percent-encoding makes any password one.
        target += target.find('?') == std::string::npos ? '?' : '&';
        target += "password=" + url_encoded(password);
    }
    return DatabaseTarget{DatabaseTarget::Kind::postgres, std::move(target)};
}

std::string mask_url(std::string_view url) {
    if (url.find(kSchemeEnd) == std::string_view::npos) {
        return std::string(url.find_first_of("=@") == std::string_view::npos ? url : kMask);
    }
    std::string out(url);
    // Up to the last '@': a password with an unescaped '/', '?', '=' or '@' is wrong, but must not be shown either.
    const std::size_t at = out.rfind('@');
    const std::size_t colon = out.find(':', out.find(kSchemeEnd) + kSchemeEnd.size());
    if (at != std::string::npos && colon < at) out.replace(colon + 1, at - colon - 1, kMask);
    for (const std::string_view key : {"password=", "sslpassword="}) {
        for (std::size_t begin = 0; (begin = find_value(out, key, begin)) != std::string::npos;) {
            out.replace(begin, out.find('&', begin) - begin, kMask);
        }
    }
    return out;
}

std::string mask_http_url(std::string_view url) {
    if (url.find(kSchemeEnd) == std::string_view::npos) return std::string(kMask);
    const std::size_t query = url.find('?');
    std::string out(url.substr(0, query));
    const std::size_t begin = out.find(kSchemeEnd) + kSchemeEnd.size();
    const std::string_view authority = authority_of(out, "/#");
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
        const std::size_t colon = authority.find(':');
        const std::size_t shown = colon < at ? colon + 1 : 0;  // a name alone is often a token
        out.replace(begin + shown, at - shown, kMask);
    }
    if (query == std::string_view::npos) return out;
    std::string_view rest = url.substr(query + 1);
    for (char separator = '?'; !rest.empty(); separator = '&') {
        const std::string_view part = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(part.size() + 1, rest.size()));
        const std::size_t equals = part.find('=');
        out += separator;
        if (equals != std::string_view::npos) out += part.substr(0, equals + 1);
        if (equals + 1 != part.size()) out += kMask;
    }
    return out;
}

void finish_database(Draft& draft, Problems& problems) {
    DatabaseConfig& database = draft.config.database;
    problems.require(!database.postgres.schema.empty(), "database.schema", " must not be empty");
    Source source{draft.database};
    // Without a line the URL is not from the file: problems then name the flag or the variable.
    if (const Value* url = problems.values().find(kUrl)) {
        source.url_name = url->line == 0 ? url->origin : kUrl;
        source.url_file = url->file;
    }
    if (const Value* password = problems.values().find("database.password")) source.password_file = password->file;

    const auto target = target_of(source);
    if (!target) {
        const bool about_url = !source.url_name.empty() || !source.settings.host;
        return problems.add(about_url ? kUrl : "database.host", "{}", target.error().message);
    }
    database.kind = target->kind;
    (database.is_sqlite() ? database.sqlite.path : database.postgres.conninfo) = target->target;
    // Rotated credentials must work without a restart, so each new connection asks for them again.
    if (source.url_file.empty() && source.password_file.empty()) return;
    database.postgres.refresh_conninfo = [source] { return refreshed_conninfo(source); };
}

}  // namespace deliverd::config
