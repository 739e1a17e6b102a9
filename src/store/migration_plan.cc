#include "store/migration_plan.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"

namespace deliverd::store {
namespace {

std::string with_schema(std::string_view sql, std::string_view quoted_schema) {
    constexpr std::string_view kPlaceholder = "${schema}";
    std::string out;
    out.reserve(sql.size());
    for (std::size_t at = 0;;) {
        const std::size_t found = sql.find(kPlaceholder, at);
        out += sql.substr(at, found - at);
        if (found == std::string_view::npos) return out;
        out += quoted_schema;
        at = found + kPlaceholder.size();
    }
}

std::string literal(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') out.push_back('\'');
        out.push_back(c);
    }
    out.push_back('\'');
    return out;
}

std::string record_statement(const Migration& migration, const MigrationDialect& dialect) {
    const bool schema = !dialect.schema.empty();
    return "insert into " + std::string(dialect.table) + " (version, name, checksum" +
           (schema ? ", outbox_schema" : "") + ") values (" + std::to_string(migration.version) + ", " +
           literal(migration.name) + ", " + literal(migration_checksum(migration)) +
           (schema ? ", " + literal(dialect.schema) : "") + ");\n";
}

std::string version_text(int version) {
    return "version " + std::to_string(version);
}

/// Why an applied migration is not the one this program has; empty when it is.
std::string difference(std::span<const Migration> wanted, const AppliedMigration& applied, std::string_view schema) {
    const auto same =
        std::find_if(wanted.begin(), wanted.end(), [&](const Migration& m) { return m.version == applied.version; });
    if (same == wanted.end()) return {};
    if (migration_checksum(*same) != applied.checksum) {
        return "migration " + std::to_string(applied.version) + " (" + applied.name +
               ") was applied with other contents than this deliverd has: run the deliverd that made the schema, "
               "or restore the migration";
    }
    if (applied.schema != schema) {
        return "the outbox tables are in schema \"" + applied.schema + "\", but database.schema says \"" +
               std::string(schema) + "\": set it back, or use another database";
    }
    return {};
}

}  // namespace

std::string migration_checksum(const Migration& migration) {
    return sha256_hex(migration.sql);
}

SchemaReport assess(std::span<const Migration> wanted, std::span<const AppliedMigration> applied,
                    std::string_view schema) {
    SchemaReport report;
    report.wanted_version = wanted.empty() ? 0 : wanted.back().version;
    report.found_version = applied.empty() ? 0 : applied.back().version;
    for (const AppliedMigration& line : applied) {
        if (auto why = difference(wanted, line, schema); !why.empty()) {
            report.state = SchemaState::changed;
            report.advice = std::move(why);
            return report;
        }
    }
    if (report.found_version > report.wanted_version) {
        report.state = SchemaState::newer;
        report.advice = "the schema (" + version_text(report.found_version) + ") is newer than this deliverd (" +
                        version_text(report.wanted_version) + "): upgrade deliverd";
    } else if (applied.empty()) {
        report.state = SchemaState::missing;
        report.advice = "the database has no deliverd schema: run `deliverd migrate`";
    } else if (report.found_version < report.wanted_version) {
        report.state = SchemaState::old;
        report.advice = "the schema has " + version_text(report.found_version) + ", this deliverd needs " +
                        version_text(report.wanted_version) + ": run `deliverd migrate`";
    } else {
        report.state = SchemaState::current;
    }
    return report;
}

Result<std::vector<MigrationStep>> missing_steps(std::span<const Migration> wanted,
                                                 std::span<const AppliedMigration> applied,
                                                 const MigrationDialect& dialect) {
    const SchemaReport report = assess(wanted, applied, dialect.schema);
    if (report.state == SchemaState::newer || report.state == SchemaState::changed) {
        return permanent(codes::kDbError, report.advice);
    }
    std::vector<MigrationStep> steps;
    for (const Migration& migration : wanted) {
        if (migration.version <= report.found_version) continue;
        std::string sql = with_schema(migration.sql, dialect.quoted_schema);
        sql += "\n" + record_statement(migration, dialect);
        steps.push_back({migration.version, std::string(migration.name), std::move(sql)});
    }
    return steps;
}

}  // namespace deliverd::store
