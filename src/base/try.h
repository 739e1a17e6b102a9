// Hand an error to the caller in one word. Both macros are for functions that return a Result.
//
//     TRY(check_worker(worker_id));                       // nothing of the value is needed
//     TRY_ASSIGN(const auto rows, connection.query(sql));  // `rows` is the value, not the Result
//
// Neither adds to the message: where the caller needs to know what was attempted, test the Result and say so.
#pragma once

#include <utility>

#include "deliverd/result.h"

// NOLINTBEGIN(bugprone-macro-parentheses): `declaration` declares a variable.

/// Returns the error of a Result from the enclosing function; otherwise drops the value.
#define TRY(...)                                                         \
    do {                                                                 \
        if (auto deliverd_try = (__VA_ARGS__); !deliverd_try)            \
            return ::deliverd::Failure(std::move(deliverd_try).error()); \
    } while (false)

/// Returns the error of a Result from the enclosing function; otherwise moves its value into `declaration`. Two
/// statements: it cannot stand alone behind an `if`.
#define TRY_ASSIGN(declaration, ...) \
    DELIVERD_TRY_ASSIGN(DELIVERD_TRY_JOIN(deliverd_try_, __LINE__), declaration, __VA_ARGS__)

#define DELIVERD_TRY_ASSIGN(result, declaration, ...)                   \
    auto result = (__VA_ARGS__);                                        \
    if (!result) return ::deliverd::Failure(std::move(result).error()); \
    declaration = *std::move(result)
#define DELIVERD_TRY_JOIN(left, right) DELIVERD_TRY_JOIN_NOW(left, right)
#define DELIVERD_TRY_JOIN_NOW(left, right) left##right

// NOLINTEND(bugprone-macro-parentheses)
