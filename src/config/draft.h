// What the settings fill: the typed configuration, and beside it the values that only make sense together, such as the
// parts of a database URL. finish.h makes the one from the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/setting.h"

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

struct LaneDraft {
    LaneConfig lane;
    std::optional<OutboxKind> outbox;
    std::optional<SinkConfig::Type> sink;
    std::int64_t max_payload_bytes = 0;
    std::int32_t retry_max = 0;
    Given columns;
    store::AfterPublish after_publish = store::AfterPublish::mark;
    std::string topic;
    EventAttributesOptions attributes;
    std::optional<std::string> token;
    TextMap librdkafka;
    ProcessedMatch processed;
};

struct TokenDraft {
    api::Token token;
    std::string expires_at;
    std::optional<std::vector<std::string>> topics;
};

}  // namespace deliverd::config
