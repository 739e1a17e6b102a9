#include "http/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/handle.h"
#include "base/try.h"

namespace deliverd::http {

namespace {

constexpr std::size_t kMaxTlsFileBytes = 1024 * 1024;
constexpr std::string_view kSessionContext = "deliverd";  // resumed sessions need one where clients have certificates
/// For TLS 1.2: forward secrecy and authenticated encryption only. Every cipher of TLS 1.3 has both.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

using Certificate = Handle<X509, X509_free>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Input = Handle<BIO, BIO_free>;

Failure wrong_file(const std::string& path, std::string_view what) {
    ERR_clear_error();
    return permanent("tls_files", fmt::format("{}: {}", path, what));
}

/// OpenSSL's text for its last error.
std::string openssl_reason() {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason == nullptr ? "unknown error" : reason;
}

Result<std::string> content_of(const std::string& path) {
    // Before it is opened: opening a named pipe would block.
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
        return wrong_file(path, error ? error.message() : "is not a file");
    }
    // A stream does not say why it could not be opened; errno does.
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return wrong_file(path, std::generic_category().message(errno));
    std::string content(kMaxTlsFileBytes + 1, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (file.bad()) return wrong_file(path, "cannot be read");
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (content.size() > kMaxTlsFileBytes) {
        return wrong_file(path, fmt::format("longer than {} bytes", kMaxTlsFileBytes));
    }
    return content;
}

Input input_of(const std::string& content) {
    return Input(BIO_new_mem_buf(content.data(), static_cast<int>(content.size())));
}

/// At least one.
Result<std::vector<Certificate>> certificates_of(const std::string& path) {
    TRY_ASSIGN(const auto content, content_of(path));
    const auto input = input_of(content);
    std::vector<Certificate> found;
    while (auto* certificate = PEM_read_bio_X509(input.get(), nullptr, nullptr, nullptr)) {
        found.emplace_back(certificate);
    }
    // Reading must end with PEM_R_NO_START_LINE; any other error means a truncated or damaged certificate.
    const auto error = ERR_peek_last_error();
    if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
        return wrong_file(path, fmt::format("a certificate in it is damaged: {}", openssl_reason()));
    }
    if (found.empty()) return wrong_file(path, "has no certificate in PEM format");
    ERR_clear_error();
    return found;
}

Result<Key> key_of(const std::string& path) {
    TRY_ASSIGN(const auto content, content_of(path));
    const auto no_passphrase = [](char*, int, int, void*) { return -1; };  // never ask on the terminal
    Key key(PEM_read_bio_PrivateKey(input_of(content).get(), nullptr, no_passphrase, nullptr));
    if (!key) {
        return wrong_file(path,
                          fmt::format("has no private key in PEM format without a passphrase: {}", openssl_reason()));
    }
    return key;
}

WallTime time_of(const ASN1_TIME* time) {
    std::tm parts{};
    ASN1_TIME_to_tm(time, &parts);
    return std::chrono::time_point_cast<std::chrono::microseconds>(
        std::chrono::system_clock::from_time_t(timegm(&parts)));
}

Result<void> use_certificate(const TlsFiles& files, LoadedTls& tls) {
    TRY_ASSIGN(const auto chain, certificates_of(files.cert_file));
    TRY_ASSIGN(const auto key, key_of(files.key_file));
    // OpenSSL checks this too, but reports neither of the files.
    X509* own = chain.front().get();
    if (X509_check_private_key(own, key.get()) != 1) {
        return wrong_file(files.key_file, fmt::format("is not the key of the certificate in {}", files.cert_file));
    }
    // SSL_CTX_use_certificate_chain_file() would do all of this, but reads the file again, which may have changed by
    // now.
    bool used = SSL_CTX_use_certificate(tls.context.get(), own) == 1 &&
                SSL_CTX_use_PrivateKey(tls.context.get(), key.get()) == 1;
    // Of the whole chain, because clients check all of it.
    tls.valid_from = WallTime::min();
    tls.valid_until = WallTime::max();
    for (const auto& certificate : chain) {
        tls.valid_from = std::max(tls.valid_from, time_of(X509_get0_notBefore(certificate.get())));
        tls.valid_until = std::min(tls.valid_until, time_of(X509_get0_notAfter(certificate.get())));
        if (certificate == chain.front()) continue;
        used = used && SSL_CTX_add1_chain_cert(tls.context.get(), certificate.get()) == 1;
    }
    if (!used) return wrong_file(files.cert_file, fmt::format("cannot be used: {}", openssl_reason()));
    return {};
}

Result<void> require_clients_of(const std::string& path, SSL_CTX* context) {
    TRY_ASSIGN(const auto authorities, certificates_of(path));
    for (const auto& authority : authorities) {
        if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
            SSL_CTX_add_client_CA(context, authority.get()) != 1) {  // helps clients choose a certificate
            return wrong_file(path, fmt::format("cannot be used: {}", openssl_reason()));
        }
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return {};
}

}  // namespace

Result<LoadedTls> load_tls(const TlsFiles& files) {
    // The errors of OpenSSL pile up per thread: an old one would be reported in place of ours.
    ERR_clear_error();
    LoadedTls tls{{SSL_CTX_new(TLS_server_method()), SSL_CTX_free}, {}, {}};
    SSL_CTX* context = tls.context.get();
    if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(context, kCiphers) != 1 ||
        SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(kSessionContext.data()),
                                       static_cast<unsigned>(kSessionContext.size())) != 1) {
        return retryable("tls_failed", fmt::format("cannot set up TLS: {}", openssl_reason()));
    }
    // Renegotiation (TLS 1.2) costs the server much more than the client.
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // tickets replace the cache and take no memory
    TRY(use_certificate(files, tls));
    if (!files.client_ca_file.empty()) {
        TRY(require_clients_of(files.client_ca_file, context));
    }
    return tls;
}

}  // namespace deliverd::http
