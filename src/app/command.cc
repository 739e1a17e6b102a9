#include "app/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <ostream>
#include <streambuf>

#include "app/config_spools.h"
#include "app/settings.h"
#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::app {

namespace {

std::string as_one_line(std::string_view text) {
    std::string line = one_line(text);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

int config_check(const Context& context, const LoadedConfig& loaded, bool json) {
    if (json) {
        boost::json::array lanes;
        for (const LaneConfig& lane : loaded.config.lanes) lanes.emplace_back(lane.options.name);
        const boost::json::object answer{
            {"source", loaded.source},
            {"ok", loaded.problems.empty()},
            {"lanes", std::move(lanes)},
            {"problems", boost::json::array(loaded.problems.begin(), loaded.problems.end())}};
        context.out << boost::json::serialize(answer) << "\n";
    } else if (loaded.problems.empty()) {
        std::string lanes;
        for (const LaneConfig& lane : loaded.config.lanes) lanes += (lanes.empty() ? "" : ", ") + lane.options.name;
        context.out << fmt::format("{}: ok; lanes: {}\n", loaded.source, lanes.empty() ? "none" : lanes);
    }
    return loaded.problems.empty() ? kDone : kWrongUsage;
}

int dispatch(const Context& context, const LoadedConfig& loaded, const Arguments& arguments) {
    switch (arguments.action) {
        case Action::serve:
            return run_serve(context, loaded.config);
        case Action::worker:
            return run_worker(context, loaded.config, arguments);
        case Action::migrate:
            return run_migrate(context, loaded.config, arguments);
        case Action::config_show:
            return run_config_show(context, loaded, arguments.json);
        case Action::orders_submit:
        case Action::orders_show:
        case Action::orders_list:
            return run_orders(context, loaded.config, arguments);
        case Action::outbox_add:
        case Action::outbox_list:
        case Action::outbox_show:
        case Action::outbox_stats:
        case Action::outbox_cleanup:
        case Action::outbox_mark:
        case Action::outbox_retry_count:
            return run_outbox(context, loaded.config, arguments);
        case Action::dlq_list:
        case Action::dlq_show:
        case Action::dlq_retry:
        case Action::dlq_retry_all:
        case Action::dlq_dead:
        case Action::dlq_revive:
        case Action::dlq_delete:
        case Action::dlq_purge:
        case Action::dlq_stats:
            return run_dlq(context, loaded.config, arguments);
        case Action::spool_import:
            return run_spool_import(context, loaded.config, arguments);
        case Action::bench:
            return run_bench(context, loaded, arguments.bench);
        default:
            return run_lease(context, loaded.config, arguments);
    }
}

}  // namespace

int complain(const Context& context, int status, std::string_view message) {
    context.err << "deliverd: " << as_one_line(message) << "\n";
    return status;
}

int complain(const Context& context, const Error& error) {
    return complain(context, error.code == "bad_argument" ? kWrongUsage : kFailed, error.message);
}

namespace {

/// Commands print what strangers wrote. Tables go through one_line(), and JSON through this: nothing of either steers a
/// terminal, and a pipe gets the same.
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

/// What was written is out, or the command failed: a script must not take a lost answer for none.
int with_output_written(const Context& context, int status) {
    const bool broken_before = !context.out;
    errno = 0;
    context.out.flush();
    if (context.out) return status;
    const std::string why = broken_before || errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
    complain(context, kFailed, fmt::format("cannot write the answer to standard output{}", why));
    return status == kDone ? kFailed : status;
}

int run_command(std::span<const std::string> words, const Context& context) {
    const ParsedCommandLine parsed = parse_command_line(words);
    if (!parsed.arguments) {
        context.out << parsed.out;
        return parsed.err.empty() ? parsed.status : complain(context, parsed.status, parsed.err);
    }
    const Arguments& arguments = *parsed.arguments;
    if (arguments.action == Action::config_docs) {
        context.out << settings_markdown();
        return kDone;
    }
    if (arguments.action == Action::token_new) return run_token_new(context, arguments);
    if (arguments.action == Action::demo) return run_demo(context, arguments.demo);
    if (arguments.action >= Action::spool_add && arguments.action <= Action::spool_resolve) {
        return run_spool(context, arguments);  // on a file alone: no configuration is looked for
    }

    const LoadedConfig loaded = load_config(arguments.config, context.environment);
    if (arguments.action == Action::doctor) return run_doctor(context, loaded, arguments.json);
    for (const std::string& problem : loaded.problems) complain(context, kWrongUsage, problem);
    if (arguments.action == Action::config_check && loaded.problems.empty()) {
        for (const SpoolConfig& spool : loaded.config.spools) {
            if (const auto note = token_note(spool)) complain(context, kDone, *note);
        }
    }
    if (arguments.action == Action::config_check) return config_check(context, loaded, arguments.json);
    if (!loaded.problems.empty()) return kWrongUsage;
    return dispatch(context, loaded, arguments);
}

}  // namespace

int run(std::span<const std::string> words, const Context& context) {
    SafeBuffer out_buffer(context.out);
    SafeBuffer err_buffer(context.err);
    std::ostream out(&out_buffer);
    std::ostream err(&err_buffer);
    const Context safe{context.in, out, err, context.environment};
    return with_output_written(safe, run_command(words, safe));
}

}  // namespace deliverd::app
