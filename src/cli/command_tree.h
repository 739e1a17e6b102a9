// The tree of commands over CLI11: adds commands, parses words, and reports wrong usage in our words. Only this room's
// sources that add commands include it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/command.h"
#include "cli/number_options.h"
#include "config/load.h"

namespace deliverd::cli {

/// What a command reads before it runs. Anything but `nothing` gives it --config and --database.
enum class Needs {
    nothing,
    valid_configuration,  // with problems in it, the command is not run
    configuration,        // with or without problems
};

class CommandTree {
public:
    using Run = std::function<int(const Call&)>;

    struct Command {
        Run run;
        Needs needs = Needs::valid_configuration;
    };
    struct Help {
        std::string name;
        std::string about;           // one line that starts with a verb
        std::string examples;        // lines of commands, then what else a reader needs
        const char* json = nullptr;  // what --json prints; null: there is no --json
    };

    CommandTree();
    CommandTree(const CommandTree&) = delete;
    CommandTree& operator=(const CommandTree&) = delete;

    /// A word below which commands are added.
    CLI::App* group(const std::string& name, const std::string& about, const std::string& footer);

    /// Adds a command below `parent` (null: the root). `run` keeps what its options fill alive: they point into it.
    CLI::App* add(CLI::App* parent, const Help& help, Run run, Needs needs = Needs::valid_configuration);

    /// What the command line says about the configuration. An option may add overrides.
    [[nodiscard]] config::ConfigRequest& request() { return request_; }

    struct Parsed {
        const Command* command = nullptr;  // of the tree; null: there is only something to print
        config::ConfigRequest request{};
        bool json = false;
        std::string out{};      // --help, --version
        std::string problem{};  // one line, without "deliverd: "; empty: none
    };
    /// `words` without the program's name. Once.
    [[nodiscard]] Parsed parse(std::span<const std::string> words);

private:
    CLI::App* deepest();
    std::optional<std::string> unknown_word();
    std::string wrong_count(const CLI::ArgumentMismatch& error);
    Parsed answer(const CLI::Success& wanted);
    Parsed finished();

    CLI::App root_;
    config::ConfigRequest request_;
    bool json_ = false;
    std::map<const CLI::App*, Command> commands_;
};

}  // namespace deliverd::cli
