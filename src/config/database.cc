#include <fmt/format.h>

#include "config/database_url.h"
#include "config/finish.h"
#include "store/postgres/postgres.h"

namespace deliverd::config {

namespace {

constexpr const char* kUrl = "database.url";
constexpr const char* kPassword = "database.password";

/// What names the database, and the files that hold its secrets; empty: none.
struct Source {
    DatabaseSettings settings;
    bool url_given = false;
    std::string url_name = kUrl;  // what the user wrote the URL to
    std::string url_file{};
    std::string password_file{};
};

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
    const bool url_in_file = source.url_given && source.url_name == kUrl;
    if (settings.host && (!source.url_given || url_in_file)) {
        if (url_in_file) return permanent("bad_url", "database.host and database.url are both given; keep one");
        if (!settings.name) return permanent("bad_url", "database.host is given, but not database.name");
        return DatabaseTarget{DatabaseTarget::Kind::postgres, conninfo_from_keys(settings)};
    }
    auto target = parse_database_url(settings.url, settings.password.value_or(""));
    if (!target) return permanent("bad_url", fmt::format("{}: {}", source.url_name, target.error().message));
    if (target->kind == DatabaseTarget::Kind::postgres) {
        if (const auto readable = store::check_conninfo(target->target); !readable) {
            return permanent("bad_url", fmt::format("{}: {}", source.url_name, readable.error().message));
        }
    }
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
    auto target = target_of(fresh);
    if (!target || target->kind != DatabaseTarget::Kind::postgres) target = target_of(source);
    return target ? target->target : std::string();
}

}  // namespace

void finish_database(Draft& draft, Problems& problems) {
    DatabaseConfig& database = draft.config.database;
    if (database.postgres.schema.empty()) problems.add("database.schema", "database.schema must not be empty");
    Source source{draft.database};
    if (const Value* url = problems.values().find(kUrl)) {
        source.url_given = true;
        if (url->line == 0) source.url_name = url->origin;
        source.url_file = url->file;
    }
    if (const Value* password = problems.values().find(kPassword)) source.password_file = password->file;

    const auto target = target_of(source);
    if (!target) {
        const bool about_url = source.url_given || !source.settings.host;
        return problems.add(about_url ? kUrl : "database.host", target.error().message);
    }
    database.kind = target->kind;
    const bool sqlite = target->kind == DatabaseTarget::Kind::sqlite;
    (sqlite ? database.sqlite.path : database.postgres.conninfo) = target->target;
    if (source.url_file.empty() && source.password_file.empty()) return;
    database.postgres.refresh_conninfo = [source] { return refreshed_conninfo(source); };
}

}  // namespace deliverd::config
