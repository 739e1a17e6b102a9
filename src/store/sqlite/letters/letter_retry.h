// One letter's retry: begun, ended, or its row put back. All inside a transaction of the caller's.
#pragma once

#include <string>
#include <string_view>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// Begins a retry, or resumes one whose process died, which counts no further retry. `redrive_began` is the start time
/// of the redrive it belongs to, empty if none: the retry's time is then no earlier, and only a resumed one is audited.
[[nodiscard]] Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                                std::string_view redrive_began);

/// False when it is not the owner's.
[[nodiscard]] Result<bool> end_retry_of(Handle& handle, std::string_view owner, std::string_view actor,
                                        const RetryEnd& end);

struct LaneReturn {
    std::string problem;      // why not; empty: done
    bool was_owners = false;  // else nothing was changed
    std::string topic{};      // the letter's
};
[[nodiscard]] Result<LaneReturn> return_letter(Handle& handle, std::string_view owner, std::string_view actor,
                                               const std::string& id);

}  // namespace deliverd::store::sqlite
