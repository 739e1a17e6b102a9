// RFC 8785 (JSON Canonicalization Scheme): one spelling for every JSON value, so that equal requests have
// equal digests. Written here because no Debian package has it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd {

inline constexpr std::size_t kMaxJsonDepth = 128;

/// The canonical form of `json`. Refused, permanent, with the byte offset: anything that is not one JSON
/// value, duplicate keys (code `json_duplicate_key`), invalid UTF-8, lone surrogates, numbers outside the
/// range of a double, nesting deeper than kMaxJsonDepth (code `bad_json` for all of those).
[[nodiscard]] Result<std::string> canonical_json(std::string_view json);

/// One member of an object.
struct JsonMember {
    std::string key;         // as text, without its escapes
    std::string canonical;   // its value's canonical form
    std::string_view value;  // its value as written, a part of the text that was read
};

/// The members of the one object that `json` must be, in the order written. Refused as by canonical_json(), except that
/// a member which is itself a number no double holds is no error: its `canonical` is empty, and the caller can say
/// which member that is.
[[nodiscard]] Result<std::vector<JsonMember>> json_members(std::string_view json);

/// The canonical form of the object with these members, whose keys differ.
[[nodiscard]] std::string canonical_object(std::span<const JsonMember> members);

/// The shortest text that reads back as the same double, as ECMAScript prints it. Finite numbers only.
[[nodiscard]] std::string ecmascript_number(double value);

}  // namespace deliverd
