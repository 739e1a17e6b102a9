// The command line of `deliverd spool`. Only for the sources that build it with CLI11.
#pragma once

#include "app/cli_outbox.h"

namespace deliverd::app {

/// Adds a command below `parent` that has --json and needs no configuration.
using AddPlainCommand =
    std::function<CLI::App*(CLI::App* parent, Action action, const std::string& name, const std::string& about,
                            const std::string& examples, const char* json)>;

/// `spool` and `dry_run` outlive `root`: parsing fills them. `add_with_config` is for what needs a database.
void add_spool_commands(CLI::App& root, SpoolArguments& spool, bool& dry_run, const AddCommand& add_with_config,
                        const AddPlainCommand& add);

}  // namespace deliverd::app
