// The API's own description.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"

namespace deliverd::api {

/// OpenAPI 3.1 as JSON: src/api/openapi.json, embedded in the program.
[[nodiscard]] std::string_view openapi_document();

/// GET /openapi.json, for viewers: it contains no secret, but nobody without a token needs it.
[[nodiscard]] inline std::vector<Route> openapi_routes() {
    const auto handler = [](const Call&) { return json_response(std::string(openapi_document())); };
    return {{"GET", "/openapi.json", Role::viewer, handler, {}, Limited::open}};
}

}  // namespace deliverd::api
