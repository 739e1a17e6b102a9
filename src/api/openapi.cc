#include "api/openapi.h"

namespace deliverd::api {

std::vector<Route> openapi_routes() {
    const auto handler = [](const Call&) { return json_response(std::string(openapi_document())); };
    return {{"GET", "/openapi.json", Role::viewer, handler, {}, Limited::open}};
}

}  // namespace deliverd::api
