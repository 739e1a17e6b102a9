// The TLS of a server, from PEM files. Shows no OpenSSL.
#pragma once

#include <memory>

#include "base/clock.h"
#include "deliverd/result.h"
#include "http/messages.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace deliverd::http {

struct LoadedTls {
    std::shared_ptr<ssl_ctx_st> context;
    /// When all certificates of `cert_file` are valid. They are used at other times too: clients decide.
    WallTime valid_from;
    WallTime valid_until;
};

/// Reads the files, each up to 1 MiB, and checks that certificate and key belong together. Failure: code `tls_files`,
/// naming the file and what is wrong with it. Thread-safe.
[[nodiscard]] Result<LoadedTls> load_tls(const TlsFiles& files);

}  // namespace deliverd::http
