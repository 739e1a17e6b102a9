// `deliverd demo`: the whole program on one machine, with traffic and a receiver that fails now and then.
// `deliverd bench`: how fast this machine and this database are.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "config/load.h"
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

struct BenchArguments {
    std::int64_t rows = 200'000;
    std::int32_t batch_size = 500;
    bool existing = false;
    std::string json_file;
};

/// Delivers rows into nothing and removes those it made. The figures go to `out`, progress to `err` on a terminal.
[[nodiscard]] Result<void> run_bench(const config::LoadedConfig& loaded, const BenchArguments& arguments,
                                     std::ostream& out, std::ostream& err);

}  // namespace deliverd::demo
