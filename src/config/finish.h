// Checks what only shows in combination, and finishes the draft that the settings have filled. One function for each
// part of the configuration; load.cc calls them.
#pragma once

#include <optional>
#include <string>

#include "config/draft.h"
#include "config/values.h"

namespace deliverd::config {

/// `server.tls`, whose files must be there and usable.
void finish_tls(Draft& draft, Problems& problems);

/// Who may use the API. After finish_tls().
void finish_auth(Draft& draft, Problems& problems);

/// Reads `jwks_file` too; keys of a `jwks_url` come later (daemon/jwks_refresh.h). None without `auth.jwt`.
[[nodiscard]] std::optional<api::JwtAuth> make_jwt(const Draft& draft, Problems& problems);

/// Which database it is: from `database.url`, or from `database.host` and its companions, with the password put in.
/// Problems: both forms at once, a host without a name, a URL that cannot be used. When a secret of the database comes
/// from a file, each new connection reads it again; while it cannot be read, the first one is used.
void finish_database(Draft& draft, Problems& problems);

/// The sections `kafka` and `dead_letters`. Also asks librdkafka what it would refuse.
void finish_dead_letters(Draft& draft, Problems& problems);

/// librdkafka's settings for every Kafka connection: the security keys of `kafka`, then `kafka.librdkafka`.
[[nodiscard]] TextMap kafka_client_settings(const KafkaSettings& settings);

/// The file that the `sasl.password` of `settings`, which begin with the above, is from. Empty where it is from none,
/// and where librdkafka's own settings name another one.
[[nodiscard]] std::string kafka_password_file(const Values& values, const TextMap& settings);

/// After finish_database() and finish_dead_letters().
void finish_lanes(Draft& draft, Problems& problems);

/// `lane` is the lane's path, "lanes.events".
void finish_sink(LaneDraft& draft, const Draft& all, const std::string& lane, Problems& problems);

/// In the file's order. The tokens come from `environment`; a missing one is a problem of who sends, not of every
/// command.
void finish_spools(Config& config, const Environment& environment, Problems& problems);

}  // namespace deliverd::config
