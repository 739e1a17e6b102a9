// `deliverd bench`: how fast this machine and this database are.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "config/load.h"
#include "deliverd/result.h"

namespace deliverd::demo {

struct BenchArguments {
    std::int64_t rows = 200'000;
    std::int32_t batch_size = 500;
    bool existing = false;
    std::string json_file;
};

/// Delivers rows into nothing, removes those that it made, and writes the figures to `out`; progress goes to `err`, on
/// a terminal only.
[[nodiscard]] Result<void> run_bench(const config::LoadedConfig& loaded, const BenchArguments& arguments,
                                     std::ostream& out, std::ostream& err);

}  // namespace deliverd::demo
