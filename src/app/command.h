// The commands: each takes the parsed arguments and the streams it may use, and answers the exit status
// (0 done, 1 something failed, 2 wrong usage or configuration).
#pragma once

#include <istream>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "app/cli.h"
#include "app/config.h"
#include "deliverd/result.h"

namespace deliverd::app {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;

/// Everything a command knows of the world around it.
struct Context {
    std::istream& in;
    std::ostream& out;
    std::ostream& err;
    Environment environment;
};

/// Parses and runs; `words` without the program's name. Every failure is one line on `err`.
int run(std::span<const std::string> words, const Context& context);

int run_serve(const Context& context, const Config& config);
int run_demo(const Context& context, const DemoArguments& arguments);
int run_worker(const Context& context, const Config& config, const Arguments& arguments);
int run_migrate(const Context& context, const Config& config, const Arguments& arguments);
int run_lease(const Context& context, const Config& config, const Arguments& arguments);
int run_orders(const Context& context, const Config& config, const Arguments& arguments);
int run_outbox(const Context& context, const Config& config, const Arguments& arguments);
int run_dlq(const Context& context, const Config& config, const Arguments& arguments);
int run_spool(const Context& context, const Arguments& arguments);
int run_spool_import(const Context& context, const Config& config, const Arguments& arguments);
int run_config_show(const Context& context, const LoadedConfig& loaded, bool json);
int run_token_new(const Context& context, const Arguments& arguments);
int run_doctor(const Context& context, const LoadedConfig& loaded, bool json);
int run_bench(const Context& context, const LoadedConfig& loaded, const BenchArguments& arguments);

/// Writes "deliverd: MESSAGE" as one line on the error stream; answers `status`.
int complain(const Context& context, int status, std::string_view message);

/// The same for an error value: a bad argument is wrong usage, everything else a failure.
int complain(const Context& context, const Error& error);

}  // namespace deliverd::app
