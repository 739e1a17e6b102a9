// For tests: certificates made on the spot.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "http/server.h"

namespace deliverd::http {

struct TestCertificate {
    std::shared_ptr<EVP_PKEY> key;
    std::shared_ptr<X509> certificate;

    [[nodiscard]] std::string pem() const {
        return pem_of([this](BIO* out) { return PEM_write_bio_X509(out, certificate.get()); });
    }
    [[nodiscard]] std::string key_pem(const char* passphrase = nullptr) const {
        return pem_of([&](BIO* out) {
            const auto* cipher = passphrase == nullptr ? nullptr : EVP_aes_128_cbc();
            return PEM_write_bio_PrivateKey(out, key.get(), cipher, nullptr, 0, nullptr, const_cast<char*>(passphrase));
        });
    }

private:
    template <typename Write>
    static std::string pem_of(const Write& write) {
        const std::unique_ptr<BIO, int (*)(BIO*)> out(BIO_new(BIO_s_mem()), BIO_free);
        if (write(out.get()) != 1) std::abort();
        char* text = nullptr;
        const auto size = BIO_get_mem_data(out.get(), &text);
        return {text, static_cast<std::size_t>(size)};
    }
};

struct CertificateOptions {
    const TestCertificate* issuer = nullptr;  // none: it signs itself
    std::chrono::seconds ends_in = std::chrono::hours(1);
    std::chrono::seconds starts_in = std::chrono::hours(-1000);
};

/// For 127.0.0.1. One that signs itself is an authority.
inline TestCertificate make_certificate(const std::string& name, const CertificateOptions& options = {}) {
    TestCertificate made{{EVP_EC_gen("P-256"), EVP_PKEY_free}, {X509_new(), X509_free}};
    X509* certificate = made.certificate.get();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), options.starts_in.count());
    X509_gmtime_adj(X509_getm_notAfter(certificate), options.ends_in.count());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const auto& issuer = options.issuer == nullptr ? made : *options.issuer;
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer.certificate.get()));
    X509_set_pubkey(certificate, made.key.get());
    const auto extend = [&](int kind, const char* value) {
        const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
            X509V3_EXT_conf_nid(nullptr, nullptr, kind, value), X509_EXTENSION_free);
        X509_add_ext(certificate, extension.get(), -1);
    };
    extend(NID_subject_alt_name, "IP:127.0.0.1");
    if (options.issuer == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
    if (X509_sign(certificate, issuer.key.get(), EVP_sha256()) == 0) std::abort();
    return made;
}

/// The files of a server in a folder, replaced as tools do that renew certificates.
class TestTlsFiles {
public:
    explicit TestTlsFiles(const std::filesystem::path& folder)
        : files{(folder / "tls.crt").string(), (folder / "tls.key").string(), ""} {}

    void write(const TestCertificate& certificate, const std::string& more = "") const {
        replace(files.cert_file, certificate.pem() + more);
        replace(files.key_file, certificate.key_pem());
    }

    static void replace(const std::string& path, const std::string& text) {
        std::ofstream(path + ".new") << text;
        std::filesystem::rename(path + ".new", path);
    }

    TlsFiles files;
};

}  // namespace deliverd::http
