// A record of a dead-letter topic as a letter to be stored. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "message/record.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// The whole record, and what its headers say. `payload` is the value when it is JSON that both databases can hold. A
/// value longer than `max_value_bytes` is cut there and marked; it then has no payload.
[[nodiscard]] store::NewLetter letter_of(Record record, std::size_t max_value_bytes);

/// What is removed, step by step, from a letter that the store refuses.
enum class Reduction { payload, provenance, bytes };

/// The letter without that, and without what comes before it. Without its bytes it counts as truncated: it cannot be
/// sent back from here; its error message names the place of the record and the error with which it was refused.
[[nodiscard]] store::NewLetter reduced(store::NewLetter letter, Reduction what, std::string_view refusal);

[[nodiscard]] constexpr std::string_view to_string(Reduction what) noexcept {
    constexpr std::array<std::string_view, 3> kNames{"payload", "payload and details of the failure",
                                                     "payload, details of the failure, key, value and headers"};
    return kNames[static_cast<std::size_t>(what)];
}

}  // namespace deliverd::deadletter
