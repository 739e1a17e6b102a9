#include <fmt/format.h>

#include <utility>

#include "config/finish.h"
#include "config/settings.h"
#include "sink/http/token_hosts.h"

namespace deliverd::config {

void finish_spools(Config& config, const Environment& environment, Problems& problems) {
    for (const std::string& name : problems.values().names_below("spools")) {
        const std::string section = "spools." + name;
        SpoolConfig spool;
        fill(problems.values(), "spools.*", section, &spool);
        spool.name = name;
        if (spool.path.empty()) problems.add(section, section + " needs a path");
        if (!spool.token_env.empty()) spool.token = environment(spool.token_env).value_or("");
        for (const std::string& text : spool.token_hosts) {
            const auto host = sink::read_token_host(text);
            if (!host) problems.add(section, section + ".token_hosts: " + host.error().message);
        }
        config.spools.push_back(std::move(spool));
    }
}

std::optional<std::string> token_note(const SpoolConfig& spool) {
    if (spool.token_env.empty() || !spool.token_hosts.empty()) return std::nullopt;
    return fmt::format(
        "spools.{0} has no token_hosts, so the token of {1} is sent to no host; name the hosts that may have it, such "
        "as "
        "`token_hosts: [example.com]`",
        spool.name, spool.token_env);
}

}  // namespace deliverd::config
