#include "app/config_spools.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "sink/http/token_hosts.h"

namespace deliverd::app {

namespace {

/// The parts of a text with commas, without the spaces around them.
std::vector<std::string> list_of(std::string_view text) {
    constexpr std::string_view kSpaces = " \t";
    std::vector<std::string> parts;
    while (!text.empty()) {
        std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(part.size() + 1, text.size()));
        part.remove_prefix(std::min(part.find_first_not_of(kSpaces), part.size()));
        part = part.substr(0, part.find_last_not_of(kSpaces) + 1);
        parts.emplace_back(part);
    }
    return parts;
}

}  // namespace

std::vector<SpoolConfig> make_spools(const Values& values, const Environment& environment,
                                     std::vector<Problem>& problems) {
    std::vector<SpoolConfig> spools;
    for (const std::string& name : values.names_below("spools")) {
        const std::string section = "spools." + name;
        SpoolConfig spool;
        spool.name = name;
        spool.path = values.text(section + ".path");
        if (spool.path.empty()) problems.push_back({values.line_of(section), section + " needs a path"});
        spool.token_env = values.text(section + ".token_env");
        if (!spool.token_env.empty()) spool.token = environment(spool.token_env).value_or("");
        for (std::string& text : list_of(values.text(section + ".token_hosts"))) {
            if (const auto host = sink::read_token_host(text); !host) {
                problems.push_back({values.line_of(section), section + ".token_hosts: " + host.error().message});
            }
            spool.token_hosts.push_back(std::move(text));
        }
        spool.allow_private = values.boolean(section + ".allow_private");
        spool.retry_interval = values.seconds(section + ".retry_seconds");
        spool.cleanup_interval = values.seconds(section + ".cleanup_seconds");
        spool.timeout = values.seconds(section + ".timeout_seconds");
        spools.push_back(std::move(spool));
    }
    return spools;
}

std::optional<std::string> token_note(const SpoolConfig& spool) {
    if (spool.token_env.empty() || !spool.token_hosts.empty()) return std::nullopt;
    return fmt::format(
        "spools.{0} has no token_hosts: the token of {1} is sent to nobody; name the hosts that may have "
        "it, such as `token_hosts: [example.com]`",
        spool.name, spool.token_env);
}

}  // namespace deliverd::app
