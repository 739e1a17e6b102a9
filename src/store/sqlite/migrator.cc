#include "store/sqlite/migrator.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "store/migration_plan.h"

namespace deliverd::store::sqlite {
namespace {

/// Whether other users of the machine may open the file or what belongs to it.
Finding permissions_of(const std::string& path) {
    std::string open_files;
    for (const char* end : {"", "-wal", "-shm"}) {
        std::error_code ignored;
        const auto status = std::filesystem::status(path + end, ignored);
        if (!std::filesystem::exists(status)) continue;
        const auto others = status.permissions() & std::filesystem::perms::others_all;
        if (others != std::filesystem::perms::none) open_files += " " + path + end;
    }
    if (open_files.empty()) return {"permissions", true, "only the owner and the group may open the file"};
    return {"permissions", false,
            "every user of this machine may open the database and read its payloads; run: chmod o=" + open_files};
}

/// The value of a query that answers one row; "" when it answers none.
Result<std::string> value_of(Handle& handle, std::string_view sql) {
    auto statement = SqliteStatement::prepare(handle.raw(), sql);
    if (!statement) return Failure(std::move(statement.error()));
    auto row = statement->step();
    if (!row) return Failure(std::move(row.error()));
    return *row ? std::string(statement->text(0)) : std::string();
}

Result<std::vector<AppliedMigration>> applied_migrations(Handle& handle) {
    std::vector<AppliedMigration> applied;
    auto has_table =
        value_of(handle, "select name from sqlite_schema where type = 'table' and name = 'deliverd_migrations'");
    if (!has_table) return Failure(std::move(has_table.error()));
    if (has_table->empty()) return applied;
    auto statement = SqliteStatement::prepare(
        handle.raw(), "select version, name, checksum from deliverd_migrations order by version");
    if (!statement) return Failure(std::move(statement.error()));
    for (;;) {
        auto more = statement->step();
        if (!more) return Failure(std::move(more.error()));
        if (!*more) return applied;
        applied.push_back(AppliedMigration{static_cast<int>(statement->integer(0)), std::string(statement->text(1)),
                                           std::string(statement->text(2)), ""});
    }
}

/// SQLite has no IF: a part of a migration that does not fit is left out. The table `outbox` may be another program's,
/// which then stays as it is.
struct OptionalPart {
    std::string_view begin;
    std::string_view end;
    std::string_view instead;
};
constexpr OptionalPart kUnlessOutbox = {"-- unless there is a table outbox:\n", "-- end unless\n",
                                        "-- There is a table outbox already: it is left as it is.\n"};
constexpr OptionalPart kOwnOutbox = {"-- where the table outbox is deliverd's own:\n", "-- end where\n",
                                     "-- There is no table outbox of deliverd's with anything in it.\n"};

void leave_out(std::string& sql, const OptionalPart& part) {
    const std::size_t from = sql.find(part.begin);
    const std::size_t to = sql.find(part.end, from == std::string::npos ? 0 : from);
    if (from == std::string::npos || to == std::string::npos) return;
    sql.replace(from, to + part.end.size() - from, part.instead);
}

Result<std::vector<MigrationStep>> steps_for(Handle& handle) {
    auto applied = applied_migrations(handle);
    if (!applied) return Failure(std::move(applied.error()));
    auto steps = missing_steps(sqlite_migrations(), *applied, {"deliverd_migrations", "", ""});
    if (!steps) return steps;
    auto outbox = value_of(handle, "select name from sqlite_schema where lower(name) = 'outbox'");
    if (!outbox) return Failure(std::move(outbox.error()));
    auto ours = value_of(handle,
                         "select name from sqlite_schema where type = 'index' and name = 'outbox_dead'"
                         " and tbl_name = 'outbox'");
    if (!ours) return Failure(std::move(ours.error()));
    for (MigrationStep& step : *steps) {
        if (!outbox->empty()) leave_out(step.sql, kUnlessOutbox);
        if (ours->empty()) leave_out(step.sql, kOwnOutbox);
    }
    return steps;
}

/// Inside the transaction. Whoever comes second waits for it and then finds nothing left to do.
Result<std::vector<MigrationStep>> migrate_locked(Handle& handle) {
    auto steps = steps_for(handle);
    if (!steps) return steps;
    for (const MigrationStep& step : *steps) {
        if (auto done = handle.run(step.sql); !done) {
            Error error = std::move(done.error());
            error.message = "migration " + std::to_string(step.version) + " (" + step.name + "): " + error.message;
            return Failure(std::move(error));
        }
    }
    return steps;
}

}  // namespace

Result<SchemaReport> schema_report(Handle& handle) {
    auto applied = applied_migrations(handle);
    if (!applied) return Failure(std::move(applied.error()));
    return assess(sqlite_migrations(), *applied, "");
}

Result<std::vector<MigrationStep>> migrate(Handle& handle, bool dry_run) {
    if (dry_run) return steps_for(handle);
    auto transaction = Transaction::begin(handle, Durability::full);
    if (!transaction) return Failure(std::move(transaction.error()));
    auto steps = migrate_locked(handle);
    if (!steps) return steps;
    if (auto done = transaction->commit(); !done) return Failure(std::move(done.error()));
    return steps;
}

Result<std::vector<Finding>> inspect(Handle& writer, const std::string& path) {
    auto report = schema_report(writer);
    if (!report) return Failure(std::move(report.error()));
    auto journal = value_of(writer, "pragma journal_mode");
    if (!journal) return Failure(std::move(journal.error()));

    std::vector<Finding> findings;
    findings.push_back({"library version", true, std::string("SQLite ") + sqlite3_libversion()});
    const bool wal = *journal == "wal";
    findings.push_back({"journal", wal,
                        wal ? "the journal is WAL"
                            : "the journal is " + *journal +
                                  ", not WAL: readers and writers block each other; "
                                  "is the file on a network share?"});
    findings.push_back(
        {"busy timeout", true, fmt::format("waits {} s for other processes", to_seconds(writer.busy_timeout()))});
    findings.push_back(permissions_of(path));
    auto locked = Transaction::begin(writer, Durability::full);
    findings.push_back({"writable", locked.has_value(), locked ? "the file can be written" : locked.error().message});
    const bool current = report->state == SchemaState::current;
    findings.push_back(
        {"schema", current, current ? "schema version " + std::to_string(report->found_version) : report->advice});
    return findings;
}

}  // namespace deliverd::store::sqlite
