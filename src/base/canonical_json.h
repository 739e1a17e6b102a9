// RFC 8785 (JSON Canonicalization Scheme): one spelling for every JSON value, so that equal requests have
// equal digests. Written here because no Debian package has it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd {

inline constexpr std::size_t kMaxJsonDepth = 128;

/// The canonical form of `json`. Refused, permanent, with the byte offset: anything that is not one JSON
/// value, duplicate keys (code `json_duplicate_key`), invalid UTF-8, lone surrogates, numbers outside the
/// range of a double, nesting deeper than kMaxJsonDepth (code `bad_json` for all of those).
[[nodiscard]] Result<std::string> canonical_json(std::string_view json);

/// The shortest text that reads back as the same double, as ECMAScript prints it. Finite numbers only.
[[nodiscard]] std::string ecmascript_number(double value);

}  // namespace deliverd
