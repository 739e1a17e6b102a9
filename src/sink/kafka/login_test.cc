// What a client is told and what is logged; that a broker takes it is in kafka_security_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/testing/recording_log.h"
#include "sink/kafka/client.h"
#include "sink/kafka/testing/topics.h"

namespace deliverd::sink {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;

class KafkaLogin : public testing::Test {
protected:
    ~KafkaLogin() override { std::filesystem::remove(path_); }

    void write(std::string_view text) const { std::ofstream(path_, std::ios::trunc | std::ios::binary) << text; }
    [[nodiscard]] Login login(const KafkaSettings& given) { return {path_, given, log_, "sink", "orders"}; }
    /// As much later as the next look is due.
    [[nodiscard]] Instant later() { return now_ += kPasswordLookInterval; }
    /// What the client would log in with.
    [[nodiscard]] std::string set_in_client(const char* name) const {
        std::array<char, 64> value{};
        std::size_t size = value.size();
        EXPECT_EQ(rd_kafka_conf_get(rd_kafka_conf(client_.get()), name, value.data(), &size), RD_KAFKA_CONF_OK);
        return value.data();
    }

    const std::filesystem::path path_ =
        std::filesystem::temp_directory_path() / ("deliverd_kafka_password_" + std::to_string(::getpid()));
    const KafkaSettings given_{{"sasl.username", "bob"}, {"sasl.username", "ann"}, {"sasl.password", "first"}};
    RecordingLog log_;
    Instant now_{std::chrono::hours(1)};
    Client client_ =
        make_client(RD_KAFKA_PRODUCER, {{"sasl.username", "ann"}, {"sasl.password", "first"}, {"log_level", "0"}});
};

TEST_F(KafkaLogin, ANewPasswordIsGivenToTheClientOnce) {
    write("first\n");
    Login login = this->login(given_);
    EXPECT_EQ(login.look(client_.get(), later()), std::nullopt);
    EXPECT_THAT(log_.events(), IsEmpty());
    write("  sec ond \xC3\xA9\r\n");  // as it stands, as when the program starts
    EXPECT_THAT(login.look(client_.get(), later()), Optional(std::string("  sec ond \xC3\xA9")));
    EXPECT_EQ(set_in_client("sasl.password"), "  sec ond \xC3\xA9");
    EXPECT_EQ(set_in_client("sasl.username"), "ann");
    EXPECT_EQ(login.look(client_.get(), later()), std::nullopt);
    EXPECT_THAT(log_.events(), ElementsAre("the new Kafka password is used from the next login"));
    EXPECT_THAT(log_.text(), Not(HasSubstr("ond")));
}

TEST_F(KafkaLogin, WhatChangedBeforeTheFirstLookCountsToo) {
    write("second");
    Login login = this->login(given_);
    EXPECT_THAT(login.look(client_.get(), later()), Optional(std::string("second")));
    EXPECT_EQ(set_in_client("sasl.password"), "second");
}

TEST_F(KafkaLogin, TheFileIsLeftAloneBetweenTwoLooks) {
    write("first");
    Login login = this->login(given_);
    const auto looked = later();
    EXPECT_EQ(login.look(client_.get(), looked), std::nullopt);
    write("second");
    EXPECT_EQ(login.look(client_.get(), looked + kPasswordLookInterval - Duration(1)), std::nullopt);
    EXPECT_THAT(login.look(client_.get(), looked + kPasswordLookInterval), Optional(std::string("second")));
}

TEST_F(KafkaLogin, AFileThatCannotBeReadKeepsThePasswordAndIsLoggedOnceEachTime) {
    Login login = this->login(given_);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(login.look(client_.get(), later()), std::nullopt);
    ASSERT_EQ(log_.events().size(), 1U);
    EXPECT_THAT(log_.text(), HasSubstr(path_.string()));
    using namespace std::string_view_literals;
    for (const auto bad : {""sv, "\n"sv, "zer0\0tail"sv}) {
        write(bad);
        EXPECT_EQ(login.look(client_.get(), later()), std::nullopt);
    }
    EXPECT_EQ(set_in_client("sasl.password"), "first");
    EXPECT_EQ(log_.events().size(), 1U);
    write("second\n");
    EXPECT_THAT(login.look(client_.get(), later()), Optional(std::string("second")));
    std::filesystem::remove(path_);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(login.look(client_.get(), later()), std::nullopt);
    EXPECT_EQ(set_in_client("sasl.password"), "second");
    EXPECT_THAT(log_.events(),
                ElementsAre("the Kafka password was not changed", "the new Kafka password is used from the next login",
                            "the Kafka password was not changed"));
    EXPECT_THAT(log_.text(), Not(HasSubstr("zer0")));
    EXPECT_THAT(log_.text(), Not(HasSubstr("second")));
}

TEST_F(KafkaLogin, WithoutAFileOrAUserThereIsNothingToLookAt) {
    Login no_file("", given_, log_, "sink", "orders");
    EXPECT_EQ(no_file.look(client_.get(), later()), std::nullopt);
    Login no_user = login({{"sasl.password", "first"}});
    write("second");
    EXPECT_EQ(no_user.look(client_.get(), later()), std::nullopt);
    EXPECT_EQ(set_in_client("sasl.password"), "first");
    EXPECT_THAT(log_.events(), IsEmpty());
}

TEST(KafkaSecrets, AReplacedSecretIsHiddenToo) {
    Secrets secrets(KafkaSettings{{"sasl.password", "first"}});
    for (std::size_t i = 0; i <= kMaxAddedSecrets; ++i) secrets.add("added-" + std::to_string(i) + ";");
    EXPECT_EQ(secrets.hidden("first added-1; added-8;", 100), "*** *** ***");
    EXPECT_EQ(secrets.hidden("added-0;", 100), "added-0;") << "the oldest one is forgotten";
}

}  // namespace
}  // namespace deliverd::sink
