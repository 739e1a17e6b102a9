#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "base/try.h"
#include "store/migration_plan.h"
#include "store/sqlite/parts.h"
#include "store/sqlite/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// Whether other users of the machine may open the file or what belongs to it.
Finding permissions_of(const std::string& path) {
    // Files from before create_private() (file/file.cc), or made by hand, keep the permissions that they have.
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
    TRY_ASSIGN(const auto value, handle.value<std::string>(sql));
    return value.value_or("");
}

Result<std::vector<AppliedMigration>> applied_migrations(Handle& handle) {
    TRY_ASSIGN(auto has_table, value_of(handle, sql::migrations_table));
    if (has_table.empty()) return std::vector<AppliedMigration>{};
    return handle.all(sql::applied_migrations, [](const SqliteStatement& row) {
        return AppliedMigration{row.get<int>(0), row.get<std::string>(1), row.get<std::string>(2), ""};
    });
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
    TRY_ASSIGN(auto applied, applied_migrations(handle));
    TRY_ASSIGN(auto steps, missing_steps(sqlite_migrations(), applied, {"deliverd_migrations", "", ""}));
    TRY_ASSIGN(auto outbox, value_of(handle, sql::outbox_table));
    TRY_ASSIGN(auto ours, value_of(handle, sql::own_outbox));
    // Also for a dry run: what it prints is what would run.
    for (MigrationStep& step : steps) {
        if (!outbox.empty()) leave_out(step.sql, kUnlessOutbox);
        if (ours.empty()) leave_out(step.sql, kOwnOutbox);
    }
    return steps;
}

}  // namespace

Result<SchemaReport> schema_report(Handle& handle) {
    TRY_ASSIGN(auto applied, applied_migrations(handle));
    return assess(sqlite_migrations(), applied, "");
}

Result<std::vector<MigrationStep>> migrate(Handle& handle, bool dry_run) {
    if (dry_run) return steps_for(handle);
    TRY_ASSIGN(auto transaction, Transaction::begin(handle, Durability::full));
    // What is missing is asked inside the transaction: a second process waits for it and then finds nothing left to do.
    TRY_ASSIGN(auto steps, steps_for(handle));
    TRY(run_steps(steps, [&](const std::string& sql) { return handle.run_script(sql); }));
    TRY(transaction.commit());
    return steps;
}

Result<std::vector<Finding>> inspect(Handle& writer, const std::string& path) {
    TRY_ASSIGN(auto report, schema_report(writer));
    TRY_ASSIGN(auto journal, value_of(writer, "pragma journal_mode"));

    std::vector<Finding> findings;
    findings.push_back({"library version", true, std::string("SQLite ") + sqlite3_libversion()});
    const bool wal = journal == "wal";
    findings.push_back({"journal", wal,
                        wal ? "the journal is WAL"
                            : "the journal is " + journal +
                                  ", not WAL: readers and writers block each other; "
                                  "is the file on a network share?"});
    findings.push_back(
        {"busy timeout", true, fmt::format("waits {} s for other processes", to_seconds(writer.busy_timeout()))});
    findings.push_back(permissions_of(path));
    // Really takes the write lock, because permissions alone do not say whether the file can be written. Rolled back.
    auto locked = Transaction::begin(writer, Durability::full);
    findings.push_back({"writable", locked.has_value(), locked ? "the file can be written" : locked.error().message});
    const bool current = report.state == SchemaState::current;
    findings.push_back(
        {"schema", current, current ? "schema version " + std::to_string(report.found_version) : report.advice});
    return findings;
}

}  // namespace deliverd::store::sqlite
