// The program behind main().
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace deliverd::cli {

/// Parses `words`, without the program's name, runs the command they name, and returns the exit status.
int run(std::span<const std::string> words, const Context& context);

}  // namespace deliverd::cli
