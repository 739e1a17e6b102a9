// The tokens that have a file of their own.
#pragma once

#include <string>
#include <vector>

#include "api/api.h"

namespace deliverd::config {

/// The tokens of `auth.tokens_file`: a YAML list. What is wrong with it is added to `problems`, with file and line.
[[nodiscard]] std::vector<api::Token> read_tokens_file(const std::string& path, std::vector<std::string>& problems);

}  // namespace deliverd::config
