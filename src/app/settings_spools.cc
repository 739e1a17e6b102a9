#include <array>

#include "app/settings_tables.h"

namespace deliverd::app {

namespace {

using enum SettingType;

// NOLINTNEXTLINE(cert-err58-cpp): constexpr data
constexpr auto kSpoolSettings = std::to_array<Setting>({
    {"spools.*.path", text, "",
     "Required: the file (docs/spool.md). `serve` retries what is due in it, keeps what is exhausted as dead letters, "
     "and cleans it up."},
    {"spools.*.token_env", text, "", "The environment variable with the bearer token; without it none is sent."},
    {"spools.*.token_hosts", text_list, "",
     "The hosts the token may be sent to, over https, or over http to loopback. Without any it is sent to nobody."},
    {"spools.*.allow_private", boolean, "false",
     "Whether endpoints may be loopback, private and link-local addresses."},
    {"spools.*.retry_seconds", seconds, "60", "Between two retries of what is due.", 0.1, kDay, "", "s"},
    {"spools.*.cleanup_seconds", seconds, "3600", "Between two cleanups.", 0.1, kDay, "", "s"},
    {"spools.*.timeout_seconds", seconds, "10", "A request may take.", 0.1, 3600, "", "s"},
});

}  // namespace

std::span<const Setting> spool_settings() {
    return kSpoolSettings;
}

}  // namespace deliverd::app
