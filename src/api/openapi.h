// The API's own description.
#pragma once

#include <string_view>
#include <vector>

#include "api/api.h"

namespace deliverd::api {

/// OpenAPI 3.1 as JSON: src/api/openapi.json, embedded in the program.
[[nodiscard]] std::string_view openapi_document();

/// GET /openapi.json, which needs viewer: it tells nothing secret, but nobody without a token needs it.
[[nodiscard]] std::vector<Route> openapi_routes();

}  // namespace deliverd::api
