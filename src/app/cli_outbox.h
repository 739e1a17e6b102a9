// The command line of `deliverd outbox`. Only for the sources that build it with CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "app/cli.h"

namespace deliverd::app {

/// Adds a command below `parent` that has --config, --database and --json (the last argument says what it is for).
using AddCommand = std::function<CLI::App*(CLI::App* parent, Action action, const std::string& name,
                                           const std::string& about, const std::string& examples, const char* json)>;

/// `outbox` outlives `root`: parsing fills it.
void add_outbox_commands(CLI::App& root, OutboxArguments& outbox, const AddCommand& add);

}  // namespace deliverd::app
