// Finds the route of a path. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/route.h"

namespace deliverd::api {

/// The text behind percent escapes; none for a broken escape, a NUL or bytes that are not UTF-8.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

class Router {
public:
    explicit Router(std::vector<Route> routes);

    struct Match {
        const Route* route = nullptr;          // null: no route, or none with this method
        std::vector<std::string> path_values;  // of the {parameters}, percent-decoded
        std::vector<std::string> allowed;      // the methods of the path; empty: unknown path
        bool bad_escape = false;               // a {parameter} cannot be decoded
    };

    /// Literal segments match byte by byte, before percent-decoding: /%6detrics is not /metrics.
    [[nodiscard]] Match find(std::string_view method, std::string_view path) const;

private:
    struct Entry {
        Route route;
        std::vector<std::string> segments;
    };
    std::vector<Entry> entries_;  // literal segments before parameters
};

}  // namespace deliverd::api
