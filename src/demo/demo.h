// `deliverd demo`: the whole program on one machine, with traffic and a receiver that fails now and then.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include "deliverd/result.h"

namespace deliverd::demo {

struct DemoArguments {
    double seconds = 0;  // 0: until interrupted
    double rate = 20;
    std::optional<std::uint16_t> port;
};

/// Runs until `seconds` have passed or a signal comes, drawing on `out`, in colour only with `colour` and on a
/// terminal. Fails when something cannot be started, or when the totals do not add up in the end.
[[nodiscard]] Result<void> run_demo(const DemoArguments& arguments, std::ostream& out, bool colour);

}  // namespace deliverd::demo
