// The command line of `deliverd dlq`. Only for the sources that build it with CLI11.
#pragma once

#include "app/cli_outbox.h"

namespace deliverd::app {

/// `dlq` outlives `root`: parsing fills it.
void add_dlq_commands(CLI::App& root, DlqArguments& dlq, const AddCommand& add);

}  // namespace deliverd::app
