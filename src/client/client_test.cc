// The pure code of the client library: numbers in SQL, and what the databases' failures are called.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "client/arguments.h"
#include "client/postgres_call.h"
#include "client/sql_values.h"
#include "client/sqlite_statement.h"

namespace deliverd::client {
namespace {

TEST(Decimal, IsWrittenWithAPoint) {
    EXPECT_EQ(decimal(60), "60");
    EXPECT_EQ(decimal(0.1), "0.1");
    EXPECT_EQ(decimal(-1.5), "-1.5");
    EXPECT_EQ(decimal(1e9), "1e+09");
}

TEST(TimeModifier, HasMillisecondsAndNoExponent) {
    EXPECT_EQ(time_ago(60), "-60.000 seconds");
    EXPECT_EQ(time_ago(0.25), "-0.250 seconds");
    EXPECT_EQ(time_ago(0.0004), "-0.000 seconds");
    EXPECT_EQ(time_ahead(2.5), "+2.500 seconds");
    EXPECT_EQ(time_ahead(1e9), "+1000000000.000 seconds");
    EXPECT_EQ(time_ahead(std::numeric_limits<double>::max()).size(), 1U + 309U + 4U + 8U);
}

TEST(Decimal, ReadsBackAsTheSameNumber) {
    for (const double value : {0.1, 1.0 / 3, 1e9 - 0.001, 1e-300, 123456.789})
        EXPECT_EQ(std::stod(decimal(value)), value);
}

TEST(Decimal, RefusedNumbersAreShownAsTheyWere) {
    EXPECT_NE(check_claim("w", 1, -0.5).error().message.find("lease_seconds is -0.5:"), std::string::npos);
}

struct Named {
    const char* sqlstate;
    const char* code;
    ErrorClass error_class;
};

TEST(PostgresError, SaysWhetherToTryAgain) {
    for (const Named& named :
         {Named{"40P01", "db_timeout", ErrorClass::retryable},  // deadlock: this side gave way
          Named{"55P03", "db_timeout", ErrorClass::retryable},  // lock not to be had in time
          Named{"57014", "db_timeout", ErrorClass::retryable},  // statement took too long
          Named{"40001", "db_error", ErrorClass::retryable},
          Named{"53100", "db_error", ErrorClass::retryable},  // disk full
          Named{"54001", "db_error", ErrorClass::permanent},  // nested too deeply
          Named{"23514", "db_error", ErrorClass::permanent}, Named{"22023", "bad_argument", ErrorClass::permanent},
          Named{"57P01", "db_unreachable", ErrorClass::ambiguous}}) {
        const Error error = postgres_error(named.sqlstate, "m", Effect::write, true);
        EXPECT_EQ(error.code, named.code) << named.sqlstate;
        EXPECT_EQ(error.error_class, named.error_class) << named.sqlstate;
    }
}

TEST(SqliteError, SaysWhetherToTryAgain) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(":memory:", &raw), SQLITE_OK);
    const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection(raw, &sqlite3_close);
    struct Case {
        int code;
        const char* name;
        ErrorClass error_class;
    };
    for (const Case& one : {Case{SQLITE_BUSY_SNAPSHOT, "db_timeout", ErrorClass::retryable},
                            Case{SQLITE_PROTOCOL, "db_timeout", ErrorClass::retryable},
                            Case{SQLITE_SCHEMA, "db_error", ErrorClass::retryable},
                            Case{SQLITE_IOERR_WRITE, "db_error", ErrorClass::retryable},
                            Case{SQLITE_CORRUPT, "db_error", ErrorClass::permanent},
                            Case{SQLITE_CONSTRAINT_CHECK, "db_error", ErrorClass::permanent}}) {
        const Error error = sqlite_error(connection.get(), one.code);
        EXPECT_EQ(error.code, one.name) << one.code;
        EXPECT_EQ(error.error_class, one.error_class) << one.code;
    }
}

}  // namespace
}  // namespace deliverd::client
