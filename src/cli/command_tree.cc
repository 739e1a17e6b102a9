#include "cli/command_tree.h"

#include "base/text.h"
#include "daemon/parts.h"

namespace deliverd::cli {

namespace {

constexpr const char* kAbout =
    "deliverd delivers messages that were committed to a database. It retries failures and keeps every\n"
    "message that it gives up as dead, with the reason. It loses no message and reports every possible\n"
    "duplicate.";

constexpr const char* kMainExamples =
    "Try it:\n"
    "  deliverd demo                                  watch messages being delivered, retried, given up\n"
    "  deliverd config check --config deliverd.yaml   check the configuration\n"
    "  deliverd serve --config deliverd.yaml          run the API and all lanes\n"
    "\n"
    "Configuration: --config FILE, else CONFIG_PATH, else ./deliverd.yaml, else built-in defaults.\n"
    "Exit status: 0 done, 1 something failed, 2 wrong usage or configuration.";

std::string full_name(const CLI::App* app) {
    return app->get_parent() == nullptr ? app->get_name() : full_name(app->get_parent()) + " " + app->get_name();
}

/// nearest() does not find `enqueue` for `enq`, although no other word begins with it.
std::optional<std::string_view> meant_by(std::string_view word, std::span<const std::string_view> known) {
    const auto begins = [word](std::string_view name) { return name.starts_with(word); };
    if (std::ranges::count_if(known, begins) == 1) return *std::ranges::find_if(known, begins);
    return nearest(word, known);
}

}  // namespace

CommandTree::CommandTree() : root_(kAbout, "deliverd") {
    root_.footer(kMainExamples);
    root_.set_version_flag("--version", fmt::format("deliverd {}", daemon::version()));
}

CLI::App* CommandTree::add(CLI::App* parent, const Help& help, Run run, Needs needs) {
    CLI::App* app = (parent == nullptr ? &root_ : parent)->add_subcommand(help.name, help.about);
    app->footer("Examples:\n" + help.examples);
    if (needs != Needs::nothing) {
        // On each command, not on the root: users write them behind the command's name.
        app->add_option("--config", request_.config_path, "configuration file")->type_name("FILE");
        app->add_option("--database", request_.database_url,
                        "postgres://… or sqlite:PATH; overrides the file and DATABASE_URL")
            ->type_name("URL");
    }
    if (help.json != nullptr) app->add_flag("--json", json_, help.json);
    commands_.emplace(app, Command{std::move(run), needs});
    return app;
}

CommandTree::Parsed CommandTree::parse(std::span<const std::string> words) {
    const auto wrong = [](std::string problem) { return Parsed{.problem = std::move(problem)}; };
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    if (!reversed.empty() && reversed.back() == "help") {             // `help lease` is `lease --help`
        reversed.pop_back();
        reversed.insert(reversed.begin(), "--help");
    }
    // A word that nobody knows is reported before anything else: a missing option is often one that was misspelt.
    try {
        root_.parse(reversed);
    } catch (const CLI::Success& wanted) {
        // CLI11 answers --help before it looks at the other words; a misspelt one must not look as if it were right.
        if (const auto unknown = unknown_word()) return wrong(*unknown);
        Parsed parsed;
        if (wanted.get_name() == "CallForVersion") {
            parsed.out = std::string(wanted.what()) + "\n";
        } else {
            CLI::App* app = deepest();
            parsed.out = app->help(app == &root_ ? std::string() : full_name(app->get_parent()));
        }
        return parsed;
    } catch (const CLI::ArgumentMismatch& error) {
        return wrong(wrong_count(error));
    } catch (const CLI::ConversionError& error) {
        // `--json=x`. Numbers are read by bounded(), so that only flags are left to CLI11's own conversions.
        const std::string_view text = error.what();
        const std::string_view flag = text.substr(std::min(text.find('-'), text.size()));
        return wrong(fmt::format("{} takes no value", flag.substr(0, flag.find(' '))));
    } catch (const CLI::ParseError& error) {
        return wrong(unknown_word().value_or(error.what()));
    }
    if (const auto unknown = unknown_word()) return wrong(*unknown);
    // A group alone is no command: CLI11 could require one below it, but words the refusal differently.
    const auto found = commands_.find(deepest());
    if (found == commands_.end())
        return wrong(fmt::format("name a command; `{} --help` lists them", full_name(deepest())));
    return {&found->second, request_, json_, {}, {}};
}

/// The command the words led to, as deep as they went.
CLI::App* CommandTree::deepest() {
    CLI::App* app = &root_;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    return app;
}

/// A message about the first unknown word, with the nearest known one.
std::optional<std::string> CommandTree::unknown_word() {
    CLI::App* app = deepest();
    std::vector<std::string> left;
    // CLI11 leaves a word that nobody takes with the command or with one of its parents.
    for (CLI::App* at = app; at != nullptr && left.empty(); at = at->get_parent()) left = at->remaining(false);
    if (left.empty()) return std::nullopt;
    const auto flag = std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
    // A flag first: what follows a misspelt flag is often its value, and no word of its own.
    const bool is_flag = flag != left.end();
    const std::string word = is_flag ? flag->substr(0, flag->find('=')) : left.front();
    std::vector<std::string> known;
    if (is_flag) {
        for (const CLI::Option* option : app->get_options()) {
            for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
        }
    } else {
        for (const CLI::App* sub : app->get_subcommands([](const CLI::App*) { return true; })) {
            if (!sub->get_group().empty()) known.push_back(sub->get_name());
        }
    }
    const std::vector<std::string_view> views(known.begin(), known.end());
    const auto meant = meant_by(word, views);
    const std::string where = full_name(app);
    const std::string what = is_flag ? "flag" : known.empty() ? "word" : "command";
    return fmt::format("unknown {} \"{}\"{}; {}", what, word, app == &root_ ? "" : fmt::format(" for {}", where),
                       meant ? fmt::format("did you mean \"{}\"?", *meant) : fmt::format("try `{} --help`", where));
}

/// For a flag without its value, or given twice.
std::string CommandTree::wrong_count(const CLI::ArgumentMismatch& error) {
    // CLI11 has one error for both.
    for (const CLI::Option* option : deepest()->get_options()) {
        if (option->get_expected_max() == 1 && option->count() > 1) {
            return fmt::format("{} was given {} times; give it once", option->get_name(), option->count());
        }
    }
    const std::string_view text = error.what();
    return fmt::format("{} needs a value", text.substr(0, text.find(':')));
}

}  // namespace deliverd::cli
