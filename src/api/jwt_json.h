// What the readers of tokens and of key sets share. Pure.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string_view>

#include "base/signature.h"
#include "deliverd/result.h"

namespace deliverd::api {

using JwtObject = boost::json::object;

/// As `alg` names it.
[[nodiscard]] std::string_view algorithm_name(SignatureKind kind);

/// The one object that `text` is. Failure (permanent): says why not ("is not JSON …"); also where a member stands twice
/// in one object, because readers differ about which one counts.
[[nodiscard]] Result<JwtObject> read_jwt_object(std::string_view text);

/// A member that is a text; none where it is missing or anything else.
[[nodiscard]] std::optional<std::string_view> text_in(const JwtObject& object, std::string_view name);

/// Whether `value` is this text, or a list with it.
[[nodiscard]] bool is_or_holds(const boost::json::value& value, std::string_view text);

}  // namespace deliverd::api
