// One letter's retry: begun, ended, or its row put back. All inside a transaction of the caller's.
#pragma once

#include <string>
#include <string_view>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// A retry whose process died is gone on with: it is the same one, and does not count once more.
/// In a redrive (`redrive_began`: when; else empty) it has a line for its beginning in the audit only then, and its
/// time is not before the redrive's.
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
