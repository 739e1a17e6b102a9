// The parts of the one list of settings (settings.h), in the order of the documentation.
#pragma once

#include "config/draft.h"
#include "config/table.h"

namespace deliverd::config {

// Limits of several settings.
inline constexpr double kDay = 86400;
inline constexpr double kLongest = 3650 * kDay;
inline constexpr double kMaxBytes = 1024.0 * 1024 * 1024;

void add_server_settings(Table<Draft> app, Table<Draft> server);
void add_database_settings(Table<Draft> database);
void add_auth_settings(Table<Draft> auth, Table<TokenDraft> token);
void add_dead_letter_settings(Table<Draft> kafka, Table<Draft> letters);
void add_upkeep_settings(Table<Draft> orders, Table<Draft> upkeep);
void add_log_settings(Table<Draft> log);
void add_lane_settings(Table<LaneDraft> lane);
void add_sink_settings(Table<LaneDraft> sink);
void add_spool_settings(Table<SpoolConfig> spool);

}  // namespace deliverd::config
