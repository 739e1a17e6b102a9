#include "store/migration_plan.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "store/sql_text.h"

namespace deliverd::store {
namespace {

// Literals, not parameters: `deliverd migrate --dry-run` prints the steps, and they must run in psql as they are.
std::string literal(std::string_view text) {
    return "'" + replaced(std::string(text), "'", "''") + "'";
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
    const auto same = std::ranges::find(wanted, applied.version, &Migration::version);
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
    // Before the version is compared: on a schema that somebody changed, no advice about versions helps.
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
        std::string sql = replaced(std::string(migration.sql), "${schema}", dialect.quoted_schema);
        sql += "\n" + record_statement(migration, dialect);
        steps.push_back({migration.version, std::string(migration.name), std::move(sql)});
    }
    return steps;
}

Result<void> run_steps(std::span<const MigrationStep> steps,
                       const std::function<Result<void>(const std::string& sql)>& run) {
    for (const MigrationStep& step : steps) {
        if (auto done = run(step.sql); !done) {
            Error error = std::move(done.error());
            error.message = "migration " + std::to_string(step.version) + " (" + step.name + "): " + error.message;
            return Failure(std::move(error));
        }
    }
    return {};
}

}  // namespace deliverd::store
