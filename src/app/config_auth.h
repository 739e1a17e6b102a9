// Who may use the API: `auth`, and what `server` says about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config.h"

namespace deliverd::app {

/// The tokens of `auth.tokens_file`: a YAML list. What is wrong with it is added to `problems`, with file and line.
[[nodiscard]] std::vector<api::Token> read_tokens_file(const std::string& path, std::vector<std::string>& problems);

/// `server.tls`, whose files must be there and usable; none where it is not given.
[[nodiscard]] std::optional<http::TlsFiles> make_tls(const Values& values, std::vector<Problem>& problems);

[[nodiscard]] api::AuthOptions make_auth(const Values& values, std::vector<Problem>& problems);

}  // namespace deliverd::app
