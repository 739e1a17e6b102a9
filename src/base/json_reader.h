// The one reader of JSON: a text becomes a sequence of events, each with the place where it is written. No tree is
// made, so that values which are passed on (payloads, orders, lines of a spool) stay as they are, byte for byte.
// Libraries that parse and print again drop duplicate keys and rewrite numbers. Strict RFC 8259 in UTF-8; Boost.JSON's
// basic_parser does the parsing.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd {

/// Objects and arrays inside each other; deeper texts are refused everywhere. SQLite allows 2000 and many receivers
/// fewer.
inline constexpr std::size_t kMaxJsonDepth = 512;

enum class JsonToken { object_begin, object_end, array_begin, array_end, key, string, number, literal };

struct JsonEvent {
    JsonToken token{};
    std::size_t depth = 0;  // objects and arrays around it
    /// As written, a part of the text that is read; at an end the whole object or array.
    std::string_view raw;
    /// What a key or string says, without its escapes; empty for other tokens. Valid until the listener returns.
    std::string_view text{};
};

/// A failure ends the reading, with the event's place added to its message.
using JsonListener = std::function<Result<void>(const JsonEvent&)>;

/// Half of a surrogate pair ("\ud800"), which JavaScript writes, RFC 8259 allows and Unicode does not know.
enum class LoneSurrogates {
    refuse,   // as databases do
    replace,  // by U+FFFD in an event's `text`; `raw` keeps it
};

/// Hands every value of the one JSON value in `json` to `listener`, in the order written. Duplicate keys and numbers of
/// any size are JSON. Failure (permanent, `bad_json`): "CAUSE at byte N"; also where it is nested deeper than
/// kMaxJsonDepth. The listener may have seen events by then.
[[nodiscard]] Result<void> read_json(std::string_view json, const JsonListener& listener,
                                     LoneSurrogates lone = LoneSurrogates::refuse);

/// Whether `json` is one JSON value. Duplicate keys and numbers of any size are JSON too.
[[nodiscard]] bool is_json(std::string_view json);

/// One member of an object; the views are parts of the text that was read.
struct JsonMember {
    std::string key;         // without its escapes
    std::string_view name;   // the key as written, with its quotes
    std::string_view value;  // as written
};

/// The members of the one object that `json` must be, in the order written. Fails as read_json() does.
[[nodiscard]] Result<std::vector<JsonMember>> json_members(std::string_view json,
                                                           LoneSurrogates lone = LoneSurrogates::refuse);

/// What the JSON string `json` says; none for any other text.
[[nodiscard]] std::optional<std::string> json_string(std::string_view json,
                                                     LoneSurrogates lone = LoneSurrogates::refuse);

}  // namespace deliverd
