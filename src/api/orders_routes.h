// Orders over HTTP: POST /api/v1/orders and GET /api/v1/orders/{key}.
#pragma once

#include <vector>

#include "api/api.h"
#include "base/log.h"
#include "orders/intake.h"
#include "store/orders.h"

namespace deliverd::api {

/// POST needs operator and is answered by a thread of `intake`; GET needs viewer and blocks for one find(). All three
/// outlive the handler made of the routes. What the database refuses permanently is logged with the request's id.
[[nodiscard]] std::vector<Route> orders_routes(orders::Intake& intake, store::Orders& orders, Log& log);

}  // namespace deliverd::api
