// What the settings fill: the typed configuration, and beside it the values that only make sense together, such as the
// parts of a database URL. Then the functions that make the one from the other and check what only shows in
// combination, one for each part of the configuration; load.cc calls them.
#pragma once

#include "config/config.h"
#include "config/values.h"

namespace deliverd::config {

struct DatabaseSettings {
    std::string url;
    std::optional<std::string> host;
    std::int64_t port = 0;
    std::optional<std::string> name;
    std::optional<std::string> user;
    std::optional<std::string> password;
    std::optional<std::string> ssl_mode;
    std::optional<std::string> ssl_ca_file;
};

struct AuthSettings {
    std::string mode;
    api::JwtRules jwt;
    TextMap jwt_roles;
};

struct KafkaSettings {
    std::string security_protocol;
    std::optional<std::string> sasl_mechanism;
    std::optional<std::string> sasl_username;
    std::optional<std::string> sasl_password;
    std::optional<std::string> ssl_ca_file;
    TextMap librdkafka;
};

struct Draft {
    Config config;
    DatabaseSettings database;
    http::TlsFiles tls;
    AuthSettings auth;
    KafkaSettings kafka;
};

struct LaneDraft : LaneConfig {
    std::int64_t max_payload_bytes = 0;
    std::int32_t retry_max = 0;
    Given columns;
    std::string topic;
    EventAttributesOptions attributes;
    std::optional<std::string> token;
    ProcessedMatch processed;
};

struct TokenDraft {
    api::Token token;
    std::string expires_at;
};

/// `server.tls`, whose files must be there and usable.
void finish_tls(Draft& draft, Problems& problems);

/// Who may use the API. After finish_tls().
void finish_auth(Draft& draft, Problems& problems);

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

}  // namespace deliverd::config
