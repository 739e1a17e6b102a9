// The codes of errors that callers compare. Other codes are for logs and metrics only.
#pragma once

namespace deliverd::codes {

inline constexpr char kBadArgument[] = "bad_argument";      // the caller's mistake; the message names the argument
inline constexpr char kDbError[] = "db_error";              // the database refused; the message says why
inline constexpr char kDbTimeout[] = "db_timeout";          // a lock was held, or the statement ran into its deadline
inline constexpr char kDbUnreachable[] = "db_unreachable";  // there is no connection, or it was lost
inline constexpr char kSpoolMissing[] = "spool_missing";    // there is no file of that name yet
inline constexpr char kSpoolBusy[] = "spool_busy";          // another process holds the file
inline constexpr char kOverloaded[] = "overloaded";
inline constexpr char kNotOwner[] = "not_owner";            // another process holds the lease
inline constexpr char kOtherShards[] = "other_shards";      // relays that are alive have another number of shards
inline constexpr char kLetterRefused[] = "letter_refused";  // the store cannot hold the content of a dead letter
inline constexpr char kBindFailed[] = "bind_failed";
inline constexpr char kDuplicateKey[] = "json_duplicate_key";

}  // namespace deliverd::codes
