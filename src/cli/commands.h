// The commands. Each function adds one command, or one group of them, to the tree: its name, help, options, and what
// runs it. command.cc lists them.
#pragma once

namespace CLI {
class App;
}

namespace deliverd::cli {

class CommandTree;

void add_serve(CommandTree& tree);
void add_demo(CommandTree& tree);
void add_worker(CommandTree& tree);
void add_lease(CommandTree& tree);
void add_orders(CommandTree& tree);
void add_outbox(CommandTree& tree);
void add_dlq(CommandTree& tree);
void add_spool(CommandTree& tree);
void add_migrate(CommandTree& tree);
void add_config(CommandTree& tree);
void add_token(CommandTree& tree);
void add_doctor(CommandTree& tree);
void add_bench(CommandTree& tree);

/// Below the group `spool`, which adds it.
void add_spool_import(CommandTree& tree, CLI::App* group);

}  // namespace deliverd::cli
