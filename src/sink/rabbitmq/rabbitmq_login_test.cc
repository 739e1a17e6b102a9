// Who may connect, with a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sink/rabbitmq/rabbitmq_sink.h"
#include "sink/rabbitmq/testing/sink_fixture.h"

namespace deliverd::sink {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using RabbitmqLogin = RabbitmqSinkTest;

TEST_F(RabbitmqLogin, CheckSaysWhatIsWrong) {
    EXPECT_EQ(check_message(), "");
    const auto good = parse_amqp_url(options_.url);
    const auto at = [&](const std::string& user, const std::string& vhost) {
        return "amqp://" + user + "@" + good->server.place() + "/" + vhost;
    };
    options_.url = at("guest:s3cret", "%2F");
    EXPECT_THAT(check_message(), AllOf(HasSubstr("guest"), HasSubstr("password"), Not(HasSubstr("s3cret"))));
    options_.url = at("guest:guest", "no%2Fsuch");
    EXPECT_THAT(check_message(), HasSubstr("virtual host 'no/such'"));
    options_.url = "amqp://127.0.0.1:1/";
    EXPECT_THAT(check_message(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("refused")));
    options_.url = "amqp://no-such-host.invalid/";
    EXPECT_THAT(check_message(), HasSubstr("no-such-host.invalid"));
}

TEST_F(RabbitmqLogin, AWrongPasswordCostsNoAttempt) {
    options_.url = "amqp://guest:s3cret@" + parse_amqp_url(options_.url)->server.place();
    const auto outcome = send_one(*sink(), event(1, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "ACCESS_REFUSED");
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, Not(HasSubstr("s3cret")));
}

TEST_F(RabbitmqLogin, AUserWhoMayNotWriteIsReported) {
    options_.url = rabbit_variable("DELIVERD_TEST_RABBITMQ_READER_URL");
    const auto outcome = send_one(*sink(), event(1, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "ACCESS_REFUSED");
    EXPECT_THAT(outcome.detail, AllOf(HasSubstr("reader"), HasSubstr("allow the user to write")));
    EXPECT_TRUE(client_.take_all(queue_).empty());
}

TEST_F(RabbitmqLogin, ThePasswordFileIsReadAtEachConnecting) {
    const auto path = std::filesystem::temp_directory_path() / fresh_name("deliverd_password");
    options_.url = "amqp://guest:wrong@" + parse_amqp_url(options_.url)->server.place();
    options_.password_file = path;
    EXPECT_THAT(check_message(), HasSubstr("password_file"));
    const auto rabbit = sink();
    EXPECT_EQ(send_one(*rabbit, event(1, "order.created")).code, "PASSWORD_UNREADABLE");
    std::ofstream(path) << "guest\n";
    EXPECT_EQ(check_message(), "");
    const auto outcome = send_until_delivered(*rabbit, event(1, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered);
    std::filesystem::remove(path);
}

TEST_F(RabbitmqLogin, TlsWithItsOwnAuthority) {
    options_.url = rabbit_variable("DELIVERD_TEST_RABBITMQ_TLS_URL");
    options_.ca_file = rabbit_variable("DELIVERD_TEST_RABBITMQ_CA_FILE");
    EXPECT_EQ(check_message(), "");
    const auto rabbit = sink();
    EXPECT_EQ(send_one(*rabbit, event(1, "order.created", std::string(500'000, 'x'))).kind, OutcomeKind::delivered);
    EXPECT_EQ(send_one(*rabbit, event(2, "order.created")).kind, OutcomeKind::delivered);
    EXPECT_EQ(client_.take_all(queue_).size(), 2U);
}

TEST_F(RabbitmqLogin, TlsWithAnAuthorityOrANameThatIsNotItsOwnIsRefused) {
    options_.url = rabbit_variable("DELIVERD_TEST_RABBITMQ_TLS_URL");
    EXPECT_THAT(check_message(), HasSubstr("certificate is not accepted"));  // the system does not know the authority
    const auto outcome = send_one(*sink(), event(1, "order.created"));
    EXPECT_EQ(outcome.code, kBrokerUnreachable);
    EXPECT_TRUE(outcome.not_attempted);
    options_.ca_file = rabbit_variable("DELIVERD_TEST_RABBITMQ_CA_FILE");
    const auto parts = parse_amqp_url(options_.url);
    options_.url = "amqps://guest:guest@127.1:" + std::to_string(parts->server.port);  // the same place by another name
    EXPECT_THAT(check_message(), HasSubstr("hostname mismatch"));
    options_.url = "amqps://guest:guest@localhost:" + std::to_string(parts->server.port);
    EXPECT_EQ(check_message(), "");
    options_.url = rabbit_variable("DELIVERD_TEST_RABBITMQ_TLS_URL");
    options_.ca_file.clear();
    options_.verify_tls = false;
    EXPECT_EQ(check_message(), "");
}

TEST(RabbitmqOptions, ThatCannotWorkAreRefused) {
    const auto problem = [](const RabbitmqSinkOptions& options) {
        const auto checked = check_rabbitmq_options(options);
        return checked ? "" : checked.error().message;
    };
    RabbitmqSinkOptions good;
    good.url = "amqp://guest:s3cret@rabbit/";
    EXPECT_EQ(problem(good), "");
    auto options = good;
    options.url = "amqp://guest:s3cret@rabbit/a/b";
    EXPECT_THAT(problem(options), AllOf(HasSubstr("%2F"), Not(HasSubstr("s3cret"))));
    options = good;
    options.exchange.assign(256, 'x');
    EXPECT_THAT(problem(options), HasSubstr("exchange"));
    options = good;
    options.heartbeat = Duration::zero();
    EXPECT_THAT(problem(options), HasSubstr("heartbeat"));
    options = good;
    options.timeout = Duration::zero();
    EXPECT_THAT(problem(options), HasSubstr("timeout"));
    options = good;
    options.ca_file = "/no/such/file";
    EXPECT_THAT(problem(options), HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace deliverd::sink
