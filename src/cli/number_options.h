// Options that are numbers. Only for the sources that include CLI11.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "config/setting.h"

namespace deliverd::cli {

inline constexpr double kMostLeaseSeconds = 1e9;  // as the protocol has it

/// The T of an optional<T>; any other type itself.
template <typename T>
struct Inner {
    using Type = T;
};
template <typename T>
struct Inner<std::optional<T>> {
    using Type = T;
};

/// A number within bounds; the refusal of anything else is worded here, not by CLI11.
template <typename Number, typename Value>
CLI::Option* bounded(CLI::App* app, const std::string& flag, Value& target,
                     std::optional<Number> (*parse)(std::string_view), const char* kind, Number least, Number most,
                     const std::string& about) {
    return app
        ->add_option_function<std::string>(
            flag,
            [=, &target](const std::string& text) {
                const std::optional<Number> number = parse(text);
                if (!number || *number < least || *number > most) {
                    const bool any = least == std::numeric_limits<Number>::lowest();
                    const std::string range = any ? "" : fmt::format(" from {} to {}", least, most);
                    const std::string name = flag.substr(flag.find(',') + 1);  // of "id,--id" the latter
                    throw CLI::ValidationError(fmt::format("{} must be {}{}, not \"{}\"", name, kind, range, text));
                }
                target = static_cast<typename Inner<Value>::Type>(*number);
            },
            about)
        ->type_name("N");
}
template <typename Value>
CLI::Option* whole(CLI::App* app, const std::string& flag, Value& target, std::int64_t least, std::int64_t most,
                   const std::string& about) {
    return bounded<std::int64_t>(app, flag, target, config::parse_integer, "a whole number", least, most, about);
}
inline CLI::Option* seconds(CLI::App* app, const std::string& flag, double& target, double most,
                            const std::string& about) {
    return bounded<double>(app, flag, target, config::parse_seconds, "seconds (or 500ms, 5m)", 0, most, about);
}
template <typename Value>
CLI::Option* any_whole(CLI::App* app, const std::string& flag, Value& target, const std::string& about) {
    return whole(app, flag, target, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
                 about);
}

/// The id a command is about: the word behind the command, or --id.
template <typename Value>
CLI::Option* row_id(CLI::App* app, Value& target, const std::string& about) {
    return any_whole(app, "id,--id", target, about)->required();
}

}  // namespace deliverd::cli
