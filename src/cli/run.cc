#include <cerrno>
#include <cstring>
#include <streambuf>

#include "base/json_text.h"
#include "cli/command_tree.h"

namespace deliverd::cli {

namespace {

/// Every command, in the order of the help.
constexpr void (*kCommands[])(CommandTree&) = {
    add_serve, add_demo,    add_worker, add_lease, add_orders, add_outbox, add_dlq,
    add_spool, add_migrate, add_config, add_token, add_doctor, add_bench,
};

/// Commands print what strangers wrote. Tables go through one_line() and everything goes through this buffer, so that
/// no text controls a terminal. A pipe gets the same bytes.
class SafeBuffer final : public std::streambuf {
public:
    explicit SafeBuffer(std::ostream& target) : target_(target) {}

protected:
    std::streamsize xsputn(const char* text, std::streamsize count) override {
        const std::string safe = terminal_safe({text, static_cast<std::size_t>(count)});
        target_.write(safe.data(), static_cast<std::streamsize>(safe.size()));
        return target_ ? count : 0;
    }
    int_type overflow(int_type c) override {
        const char one = traits_type::to_char_type(c);
        return xsputn(&one, 1) == 1 ? c : traits_type::eof();
    }
    int sync() override { return target_.flush() ? 0 : -1; }

private:
    std::ostream& target_;
};

/// Fails the command if its output could not be written: a script must not take a lost answer for an empty one.
int with_output_written(const Context& context, int status) {
    const bool broken_before = !context.out;
    // A full disk or a closed pipe often shows only now: streams write when their buffer is full.
    errno = 0;
    context.out.flush();
    if (context.out) return status;
    const std::string why = broken_before || errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
    complain(context, fmt::format("cannot write the answer to standard output{}", why));
    return status == kDone ? kFailed : status;
}

int run_command(std::span<const std::string> words, const Context& context) {
    // For each run anew: its options write into arguments that the commands keep.
    CommandTree tree;
    for (const auto add : kCommands) add(tree);
    const CommandTree::Parsed parsed = tree.parse(words);
    if (parsed.command == nullptr) {
        context.out << parsed.out;
        if (parsed.problem.empty()) return kDone;
        complain(context, parsed.problem);
        return kWrongUsage;
    }
    const CommandTree::Command& command = *parsed.command;
    config::LoadedConfig loaded;
    if (command.needs != Needs::nothing) loaded = config::load_config(parsed.request, context.environment);
    // `doctor` and `config check` report the problems themselves, in their own form.
    if (command.needs == Needs::valid_configuration && !loaded.problems.empty()) {
        for (const std::string& problem : loaded.problems) complain(context, problem);
        return kWrongUsage;
    }
    const Status status = command.run({context, loaded, parsed.json});
    if (status) return *status;
    complain(context, status.error().message);
    return status.error().code == codes::kBadArgument ? kWrongUsage : kFailed;
}

}  // namespace

int run(std::span<const std::string> words, const Context& context) {
    SafeBuffer out_buffer(context.out);
    SafeBuffer err_buffer(context.err);
    std::ostream out(&out_buffer);
    std::ostream err(&err_buffer);
    const Context safe{context.in, out, err, context.environment, context.asks};
    return with_output_written(safe, run_command(words, safe));
}

}  // namespace deliverd::cli
