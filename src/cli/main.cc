#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <vector>

#include "cli/command.h"

int main(int argc, char** argv) {
    // A reader that went away (`deliverd lease claim | head`) is an error of the write, not the end of the process.
    std::signal(SIGPIPE, SIG_IGN);
    // With buffers of their own, std::cin and std::cout report read and write errors; those of stdio hide them.
    std::ios::sync_with_stdio(false);
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    const deliverd::cli::Context context{
        std::cin, std::cout, std::cerr,
        [](const std::string& name) -> std::optional<std::string> {
            const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets variables
            return value == nullptr ? std::nullopt : std::optional<std::string>(value);
        },
        isatty(STDIN_FILENO) == 1};
    try {
        return deliverd::cli::run(words, context);
    } catch (const std::exception& error) {  // out of memory, out of threads: nothing a command could answer
        std::cerr << "deliverd: cannot continue: " << error.what() << "\n";
        return deliverd::cli::kFailed;
    }
}
