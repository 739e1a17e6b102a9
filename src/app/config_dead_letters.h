// What the settings say about Kafka and dead letters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/config.h"
#include "app/config_values.h"

namespace deliverd::app {

/// librdkafka's settings for whatever speaks to Kafka: the security keys of `kafka`, then `kafka.librdkafka`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> kafka_client_settings(const Values& values);

[[nodiscard]] DeadLettersConfig make_dead_letters(const Values& values, std::vector<Problem>& problems);

}  // namespace deliverd::app
