#include "app/config_database.h"

#include <fmt/format.h>

#include "store/postgres/postgres.h"

namespace deliverd::app {

namespace {

std::string conninfo_from_keys(const Values& values) {
    std::string conninfo =
        fmt::format("host={} port={}", quote_conninfo(values.text("database.host")), values.integer("database.port"));
    const auto add = [&](const char* key, const std::string& path) {
        if (values.has(path)) conninfo += fmt::format(" {}={}", key, quote_conninfo(values.text(path)));
    };
    add("dbname", "database.name");
    add("user", "database.user");
    add("password", "database.password");
    add("sslmode", "database.ssl_mode");
    add("sslrootcert", "database.ssl_ca_file");
    return conninfo;
}

}  // namespace

Result<DatabaseTarget> database_target(const Values& values) {
    const Value* url = values.find("database.url");
    const bool url_in_file = url != nullptr && url->line > 0;
    if (values.has("database.host") && (url == nullptr || url_in_file)) {
        if (url_in_file) return permanent("bad_url", "database.host and database.url are both given; keep one");
        if (!values.has("database.name")) {
            return permanent("bad_url", "database.host is given, but not database.name");
        }
        return DatabaseTarget{DatabaseTarget::Kind::postgres, conninfo_from_keys(values)};
    }
    const std::string name = url == nullptr || url_in_file ? std::string("database.url") : url->origin;
    auto target = parse_database_url(values.text("database.url"), values.text("database.password"));
    if (!target) return permanent("bad_url", fmt::format("{}: {}", name, target.error().message));
    if (target->kind == DatabaseTarget::Kind::postgres) {
        if (const auto readable = store::check_conninfo(target->target); !readable) {
            return permanent("bad_url", fmt::format("{}: {}", name, readable.error().message));
        }
    }
    return target;
}

std::function<std::string()> conninfo_refresher(const Values& values) {
    bool from_file = false;
    for (const char* path : {"database.url", "database.password"}) {
        const Value* value = values.find(path);
        from_file = from_file || (value != nullptr && !value->file.empty());
    }
    if (!from_file) return nullptr;
    return [values] {
        Values fresh = values;
        for (const char* path : {"database.url", "database.password"}) {
            const Value* value = values.find(path);
            if (value == nullptr || value->file.empty()) continue;
            Value changed = *value;
            auto text = read_secret_file(value->file);
            if (text && !text->empty()) changed.text = std::move(*text);  // empty: it is being written
            fresh.set(path, std::move(changed));
        }
        auto target = database_target(fresh);
        if (!target || target->kind != DatabaseTarget::Kind::postgres) target = database_target(values);
        return target ? target->target : std::string();
    };
}

}  // namespace deliverd::app
