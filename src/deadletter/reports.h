// What the manager answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "deliverd/result.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Why a caller may not send a letter back; empty: it may. Called from any thread. No rule: every letter may be sent.
using SendRule = std::function<std::string(const store::Letter&)>;

enum class RetryAnswer {
    resolved,  // published and acknowledged, or back in its lane or spool; stand-alone: resolved without publishing
    not_found,
    conflict,       // not retryable, refused, or another retry is under way: `message` says which
    not_published,  // certainly not: it can be retried
    in_doubt,       // may have been published; RETRYING
    unavailable,    // the store failed, or the program is stopping: nothing was published
};

struct RetryReport {
    RetryAnswer answer = RetryAnswer::not_found;
    std::string message;  // one line for people
    std::optional<store::Letter> letter{};
    std::optional<Error> store_error{};  // unavailable: the store's error; none when the program is stopping
};

struct RedriveReport {
    store::Redrive redrive;
    bool under_way_elsewhere = false;  // nothing was done here
    std::string problem{};             // why not everything was tried
    /// Letters of this run that were refused or whose topic accepted none. They are as before; no retry was counted.
    std::int64_t not_tried = 0;
    std::string not_tried_reason{};  // of the first one
};

/// Letters that a retry of a whole topic would send to one destination.
struct PlannedReplay {
    store::Destination destination;
    std::string refused{};  // why they would not be sent there; empty: they would
};

/// How a change by hand (mark as dead, revive, delete) ended.
enum class ChangeAnswer { done, not_found, conflict, unavailable };

struct ChangeReport {
    ChangeAnswer answer = ChangeAnswer::done;
    std::string reason{};                // conflict: why the letter was left as it is
    std::optional<Error> store_error{};  // unavailable
};

struct PurgeReport {
    std::int64_t purged = 0;
    bool more = false;                   // the limit was reached, or the store failed: some may be left
    std::optional<Error> store_error{};  // it failed after `purged` letters
};

}  // namespace deliverd::deadletter
