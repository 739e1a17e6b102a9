// Headers of every kind, for properties.
#pragma once

#include <rapidcheck.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deadletter/failure_headers.h"
#include "message/record.h"

namespace deliverd::deadletter {

using Headers = std::vector<RecordHeader>;

/// Names of the table, near misses and anything; values of any bytes, empty and null.
inline rc::Gen<Headers> any_headers() {
    std::vector<std::string> names = {"trace_id", "error2", "deliverd-replays", ""};
    for (const FailureHeader& header : failure_headers()) names.emplace_back(header.name);
    const auto name =
        rc::gen::weightedOneOf<std::string>({{8, rc::gen::elementOf(names)}, {1, rc::gen::arbitrary<std::string>()}});
    const auto value = rc::gen::map(rc::gen::pair(rc::gen::inRange(0, 5), rc::gen::arbitrary<std::string>()),
                                    [](std::pair<int, std::string> drawn) -> std::optional<std::string> {
                                        if (drawn.first == 0) return std::nullopt;
                                        if (drawn.first == 1) return "orders.v1";
                                        return std::move(drawn.second);
                                    });
    const auto header =
        rc::gen::map(rc::gen::pair(name, value), [](std::pair<std::string, std::optional<std::string>> drawn) {
            return RecordHeader{std::move(drawn.first), std::move(drawn.second)};
        });
    return rc::gen::container<Headers>(header);
}

}  // namespace deliverd::deadletter
