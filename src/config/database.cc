#include <fmt/format.h>

#include "config/database_url.h"
#include "config/finish.h"
#include "store/postgres/postgres.h"

namespace deliverd::config {

namespace {

constexpr const char* kUrl = "database.url";

/// What names the database, and the files that hold its secrets; empty: none.
struct Source {
    DatabaseSettings settings;
    std::string url_name{};  // what the user wrote the URL to; empty: nobody did
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
    const auto refused = [](std::string message) { return permanent("bad_url", std::move(message)); };
    // DATABASE_URL and --database override the file, whichever form it has.
    if (settings.host && source.url_name == kUrl) {
        return refused("database.host and database.url are both given; keep one");
    }
    if (settings.host && source.url_name.empty()) {
        if (!settings.name) return refused("database.host is given, but not database.name");
        return DatabaseTarget{DatabaseTarget::Kind::postgres, conninfo_from_keys(settings)};
    }
    auto target = parse_database_url(settings.url, settings.password.value_or(""));
    if (!target) return refused(fmt::format("{}: {}", source.url_name, target.error().message));
    if (target->kind != DatabaseTarget::Kind::postgres) return target;
    const auto readable = store::check_conninfo(target->target);
    if (!readable) return refused(fmt::format("{}: {}", source.url_name, readable.error().message));
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
    const bool sqlite = target->kind == DatabaseTarget::Kind::sqlite;
    (sqlite ? database.sqlite.path : database.postgres.conninfo) = target->target;
    // Rotated credentials must work without a restart, so each new connection asks for them again.
    if (source.url_file.empty() && source.password_file.empty()) return;
    database.postgres.refresh_conninfo = [source] { return refreshed_conninfo(source); };
}

}  // namespace deliverd::config
