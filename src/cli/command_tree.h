// The tree of commands over CLI11: adds commands, parses words, and reports wrong usage in our words. Only this room's
// sources that add commands include it: CLI11's headers are large.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/try.h"
#include "cli/command.h"
#include "config/load.h"
#include "config/settings.h"

namespace deliverd::cli {

/// What a command reads before it runs. Anything but `nothing` gives it --config and --database.
enum class Needs {
    nothing,
    valid_configuration,  // with problems in it, the command is not run
    configuration,        // with or without problems
};

class CommandTree {
public:
    using Run = std::function<Status(const Call&)>;

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

    /// A word below which commands are added.
    CLI::App* group(const std::string& name, const std::string& about, const std::string& footer) {
        return root_.add_subcommand(name, about)->footer(footer);
    }

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

    CLI::App root_;
    config::ConfigRequest request_;
    bool json_ = false;
    std::map<const CLI::App*, Command> commands_;
};

/// Help::json of a command whose answer is JSON anyway: scripts may say --json everywhere.
inline constexpr const char* kAlwaysJson = "accepted; the output is always JSON";

inline constexpr double kMostLeaseSeconds = 1e9;  // as the protocol has it

/// A text, one of `words` if there are any. `spec` is the flag or the word's name, and what the help calls its value:
/// "--file FILE".
template <typename Value>
CLI::Option* text(CLI::App* app, const std::string& spec, Value& target, const std::string& about,
                  const std::vector<std::string>& words = {}) {
    const std::size_t space = spec.find(' ');
    CLI::Option* option = app->add_option(spec.substr(0, space), target, about)->type_name(spec.substr(space + 1));
    return words.empty() ? option : option->check(CLI::IsMember(words));
}

/// An option whose text `parse` reads into an optional value. Its refusal is worded here, because CLI11's names C++
/// types: "--limit must be FORM, not …".
template <typename Value, typename Parse>
CLI::Option* parsed(CLI::App* app, const std::string& flag, Value& target, const std::string& form, Parse parse,
                    const std::string& about) {
    const auto read = [=, &target](const std::string& text) {
        const auto value = parse(text);
        const std::string name = flag.substr(flag.find(',') + 1);  // of "id,--id" the latter
        if (!value) throw CLI::ValidationError(fmt::format("{} must be {}, not \"{}\"", name, form, text));
        if constexpr (std::is_arithmetic_v<Value>) {
            target = static_cast<Value>(*value);
        } else {
            target = *value;
        }
    };
    return app->add_option_function<std::string>(flag, read, about);
}

/// A number within bounds.
template <typename Number, typename Value>
CLI::Option* bounded(CLI::App* app, const std::string& flag, Value& target,
                     std::optional<Number> (*parse)(std::string_view), const char* kind, Number least, Number most,
                     const std::string& about) {
    const bool any = least == std::numeric_limits<Number>::lowest();
    const std::string form = any ? kind : fmt::format("{} from {} to {}", kind, least, most);
    const auto within = [=](const std::string& text) {
        const std::optional<Number> number = parse(text);
        return number && *number >= least && *number <= most ? number : std::nullopt;
    };
    return parsed(app, flag, target, form, within, about)->type_name("N");
}

/// A whole number; if it need not be given, the help shows the value that `target` has now.
template <typename Value>
CLI::Option* whole(CLI::App* app, const std::string& flag, Value& target, std::int64_t least, std::int64_t most,
                   const std::string& about) {
    CLI::Option* option =
        bounded<std::int64_t>(app, flag, target, config::parse_integer, "a whole number", least, most, about);
    if constexpr (std::is_arithmetic_v<Value>) option->default_str(std::to_string(target));
    return option;
}

inline CLI::Option* seconds(CLI::App* app, const std::string& flag, double& target, double most,
                            const std::string& about) {
    return bounded<double>(app, flag, target, config::parse_seconds, "seconds (or 500ms, 5m)", 0, most, about);
}

/// Any whole number, such as an id.
template <typename Value>
CLI::Option* any_whole(CLI::App* app, const std::string& flag, Value& target, const std::string& about) {
    using Limits = std::numeric_limits<std::int64_t>;
    return bounded<std::int64_t>(app, flag, target, config::parse_integer, "a whole number", Limits::min(),
                                 Limits::max(), about);
}

/// The id a command is about: the word behind the command, or --id.
inline CLI::Option* row_id(CLI::App* app, std::int64_t& target, const std::string& about) {
    return any_whole(app, "id,--id", target, about)->required();
}

/// What a command works with that uses one port of the database, such as its outbox.
template <typename Arguments, typename Port>
struct Job {
    const Call& call;
    const Arguments& asked;
    const std::string& input;  // what the command read; empty: nothing
    const store::Database& database;
    Port& port;
};

/// The commands of a group that use one port, which `open` makes for each run.
template <typename Arguments, typename Port>
struct PortCommands {
    CommandTree& tree;
    CLI::App* group;
    std::shared_ptr<Arguments> asked;
    Result<std::unique_ptr<Port>> (*open)(store::Database& database, const Call& call);

    /// A command that stores what it reads creates a missing SQLite file. It reads first: input that is not there must
    /// not leave an empty database.
    CLI::App* add(const CommandTree::Help& help, Status (*work)(const Job<Arguments, Port>&),
                  Result<std::string> (*read)(const Call&, const Arguments&) = nullptr) const {
        return tree.add(group, help, [work, read, commands = *this](const Call& call) -> Status {
            TRY_ASSIGN(const auto input, read == nullptr ? Result<std::string>() : read(call, *commands.asked));
            const MissingFile missing = read == nullptr ? MissingFile::refuse : MissingFile::create;
            return with_database(call, missing, [&](store::Database& database, Log&) -> Status {
                TRY_ASSIGN(const auto port, commands.open(database, call));
                return work({call, *commands.asked, input, database, *port});
            });
        });
    }
};

// Each adds one command, or one group of them: its name, help, options, and what runs it. run.cc lists them.
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

}  // namespace deliverd::cli
