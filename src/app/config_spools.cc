#include "app/config_spools.h"

#include <utility>

namespace deliverd::app {

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
        spool.allow_private = values.boolean(section + ".allow_private");
        spool.retry_interval = values.seconds(section + ".retry_seconds");
        spool.cleanup_interval = values.seconds(section + ".cleanup_seconds");
        spool.timeout = values.seconds(section + ".timeout_seconds");
        spools.push_back(std::move(spool));
    }
    return spools;
}

}  // namespace deliverd::app
