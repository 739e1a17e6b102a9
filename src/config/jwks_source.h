// Where the keys of an OpenID provider are: `auth.jwt`.
#pragma once

#include <string>

#include "config/database_url.h"

namespace deliverd::config {

/// Where the keys are: one of the two.
struct JwksSource {
    std::string file;
    std::string url;
    std::string ca_file;  // for `url`; empty: the system's authorities

    /// For logs and messages: a user and a password in the URL are masked.
    [[nodiscard]] std::string name() const { return file.empty() ? mask_http_url(url) : file; }
};

}  // namespace deliverd::config
