// RFC 8785 (JSON Canonicalization Scheme): one spelling for every JSON value, so that equal requests have equal
// digests. Written here because no Debian package has it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd {

/// The canonical form of `json`. Failure (permanent, `bad_json`) with its cause and byte: as of read_json(), and a
/// number outside the range of a double; `json_duplicate_key`: an object with one key twice.
[[nodiscard]] Result<std::string> canonical_json(std::string_view json);

/// One member of an object.
struct CanonicalMember {
    std::string key;         // without its escapes
    std::string canonical;   // its value's canonical form
    std::string_view value;  // its value as written, a part of the text that was read
};

/// The members of the one object that `json` must be, in the order written. Fails as canonical_json(), except that a
/// member which is itself a number no double holds is no error: its `canonical` is empty, so that the caller can name
/// the member.
[[nodiscard]] Result<std::vector<CanonicalMember>> canonical_members(std::string_view json);

/// The canonical form of the object with these members, whose keys differ.
[[nodiscard]] std::string canonical_object(std::span<const CanonicalMember> members);

/// The shortest text that reads back as the same double, as ECMAScript prints it. Finite numbers only.
[[nodiscard]] std::string ecmascript_number(double value);

}  // namespace deliverd
