#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/command.h"
#include "http/testing/certificates.h"

namespace deliverd::cli {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Runs commands on a configuration with `server.tls`.
class TlsConfig : public testing::Test {
protected:
    TlsConfig() { write(http::make_certificate("own", {.ends_in = 24h * 365})); }
    ~TlsConfig() override { std::filesystem::remove_all(folder_); }

    static std::string make_folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-tls-config-XXXXXX").string();
        return mkdtemp(pattern.data());
    }

    void write(const http::TestCertificate& certificate) {
        files_.write(certificate);
        std::filesystem::permissions(files_.files.key_file, std::filesystem::perms(0600));
    }

    /// Both streams of the command.
    std::string run(const std::vector<std::string>& words, int status, const std::string& tls) {
        const std::string hash(64, 'a');
        http::TestTlsFiles::replace(folder_ / "deliverd.yaml",
                                    "database: { url: \"sqlite:" + (folder_ / "test.db").string() +
                                        "\" }\n"
                                        "auth: { tokens: [ { name: ops, role: viewer, sha256: " +
                                        hash + " } ] }\nserver:\n  host: 0.0.0.0\n  tls: { " + tls + " }\n");
        std::istringstream in;
        std::ostringstream out;
        const Context context{in, out, out, [this](const std::string& name) -> std::optional<std::string> {
                                  if (name == "CONFIG_PATH") return (folder_ / "deliverd.yaml").string();
                                  return std::nullopt;
                              }};
        EXPECT_EQ(cli::run(words, context), status) << out.str();
        return out.str();
    }

    std::string check(int status, const std::string& tls) { return run({"config", "check"}, status, tls); }
    std::string doctor(int status) { return run({"doctor"}, status, both()); }

    [[nodiscard]] std::string both() const {
        return "cert_file: " + files_.files.cert_file + ", key_file: " + files_.files.key_file;
    }

    const std::filesystem::path folder_ = make_folder();
    http::TestTlsFiles files_{folder_};
};

TEST_F(TlsConfig, TokensNeedNothingElse) {
    check(0, both());
}

TEST_F(TlsConfig, WhatIsWrongWithTheFilesIsAProblem) {
    const std::string cert = "cert_file: " + files_.files.cert_file;
    EXPECT_THAT(check(2, cert), HasSubstr("deliverd.yaml:5: server.tls needs both cert_file and key_file"));
    EXPECT_THAT(check(2, "client_ca_file: " + files_.files.cert_file), HasSubstr("needs both cert_file and key_file"));
    EXPECT_THAT(check(2, ""), HasSubstr("needs both cert_file and key_file"));
    EXPECT_THAT(check(2, cert + ", key_file: /no/such/key"),
                HasSubstr("deliverd.yaml:5: server.tls: /no/such/key: No such file"));
    EXPECT_THAT(check(2, both() + ", client_ca_file: /no/such/ca"), HasSubstr("/no/such/ca: No such file"));
    http::TestTlsFiles::replace(files_.files.key_file, http::make_certificate("other").key_pem());
    EXPECT_THAT(check(2, both()), HasSubstr("is not the key of the certificate in " + files_.files.cert_file));
    EXPECT_THAT(doctor(2), AllOf(HasSubstr("BAD  config"), HasSubstr("is not the key")));
}

TEST_F(TlsConfig, DoctorSaysHowLongTheCertificateIsValid) {
    EXPECT_THAT(doctor(0), AllOf(ContainsRegex("ok   tls +.*tls.crt is valid until 2"), Not(HasSubstr("plain HTTP"))));
    write(http::make_certificate("own", {.ends_in = 24h * 14 - 1min}));
    EXPECT_THAT(doctor(0), ContainsRegex("ok   tls +warning: .*tls.crt expires at .*, in less than 14 days"));
    write(http::make_certificate("own", {.ends_in = 24h * 14 + 1h}));
    EXPECT_THAT(doctor(0), Not(HasSubstr("warning")));
    write(http::make_certificate("own", {.ends_in = -1s}));
    EXPECT_THAT(doctor(1), ContainsRegex("BAD  tls +.*tls.crt expired at"));
    write(http::make_certificate("own", {.ends_in = 2h, .starts_in = 1h}));
    EXPECT_THAT(doctor(1), ContainsRegex("BAD  tls +.*tls.crt is not valid before"));
}

TEST_F(TlsConfig, DoctorReportsAKeyThatOthersMayRead) {
    std::filesystem::permissions(files_.files.key_file, std::filesystem::perms(0644));
    EXPECT_THAT(doctor(1), HasSubstr("run: chmod o= " + files_.files.key_file));
}

}  // namespace
}  // namespace deliverd::cli
