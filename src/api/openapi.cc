#include "api/openapi.h"

namespace deliverd::api {

std::vector<Route> openapi_routes() {
    return {{"GET", "/openapi.json", Role::viewer,
             [](const Call&) { return http::Response{200, {}, "application/json", std::string(openapi_document())}; }}};
}

}  // namespace deliverd::api
