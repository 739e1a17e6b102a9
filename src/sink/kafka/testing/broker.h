// For tests: Kafka brokers. The real one that the test run started, one of a test's own to kill and to pause
// (tests/harness/kafka.py), and librdkafka's mock cluster: for faults that no broker makes on demand, and in place of a
// real one where its jars could not be had.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sink/kafka/testing/topics.h"

namespace deliverd::sink {

/// An environment variable; empty when it is not set.
inline std::string from_environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

/// Why there is no real broker; none when there is one. A run without the harness is a fault, not a reason.
inline std::optional<std::string> why_no_broker() {
    if (!from_environment("DELIVERD_TEST_KAFKA_BROKERS").empty()) return std::nullopt;
    auto reason = from_environment("DELIVERD_TEST_KAFKA_MISSING");
    if (reason.empty())
        throw std::runtime_error("no Kafka for this test: run it by ./dev test or harness.with_servers");
    return reason;
}

/// First in a test that only a real broker can carry.
#define DELIVERD_NEEDS_REAL_KAFKA() \
    if (const auto reason = deliverd::sink::why_no_broker()) GTEST_SKIP() << *reason

class MockCluster {
public:
    MockCluster()
        : host_(make_client(RD_KAFKA_PRODUCER, {{"log_level", "0"}})),
          cluster_(rd_kafka_mock_cluster_new(host_.get(), 1)) {}
    ~MockCluster() { rd_kafka_mock_cluster_destroy(cluster_); }
    MockCluster(const MockCluster&) = delete;
    MockCluster& operator=(const MockCluster&) = delete;

    [[nodiscard]] std::string brokers() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }
    [[nodiscard]] rd_kafka_mock_cluster_t* get() const { return cluster_; }
    [[nodiscard]] std::string new_topic(int partitions = 1) const {
        auto topic = fresh_topic();
        rd_kafka_mock_topic_create(cluster_, topic.c_str(), partitions, 1);
        return topic;
    }

private:
    Client host_;
    rd_kafka_mock_cluster_t* cluster_;
};

/// The run's real broker, or a mock cluster, and then the test says so.
class AnyBroker {
public:
    AnyBroker() {
        if (const auto reason = why_no_broker()) {
            std::cout << "on librdkafka's mock cluster: " << *reason << '\n';
            mock_ = std::make_unique<MockCluster>();
        }
    }
    [[nodiscard]] std::string brokers() const {
        return mock_ ? mock_->brokers() : from_environment("DELIVERD_TEST_KAFKA_BROKERS");
    }
    [[nodiscard]] std::string new_topic(int partitions = 1) const {
        if (mock_) return mock_->new_topic(partitions);
        auto topic = fresh_topic();
        create_topic(brokers(), topic, partitions);
        return topic;
    }

private:
    std::unique_ptr<MockCluster> mock_;
};

/// A real broker of this test's own. It ends when its standard input does, so also with this process.
class OwnBroker {
public:
    /// `settings` of the broker, NAME=VALUE.
    explicit OwnBroker(const std::string& settings = "") {
        int to[2];
        int from[2];
        if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        const auto command = from_environment("DELIVERD_TEST_KAFKA_OWN") + " " + settings;
        process_ = ::fork();
        if (process_ == 0) {
            ::dup2(to[0], STDIN_FILENO);
            ::dup2(from[1], STDOUT_FILENO);
            ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        to_ = ::fdopen(to[1], "w");
        from_ = ::fdopen(from[0], "r");
        wait_until_ready();
    }
    ~OwnBroker() {
        std::fclose(to_);
        ::waitpid(process_, nullptr, 0);
        std::fclose(from_);
    }
    OwnBroker(const OwnBroker&) = delete;
    OwnBroker& operator=(const OwnBroker&) = delete;

    [[nodiscard]] const std::string& brokers() const { return brokers_; }

    [[nodiscard]] const std::string& sasl_brokers() const { return sasl_brokers_; }

    /// kill9, stop, start, pause, resume or `set_password PASSWORD`, from the next start on; returns when it is done.
    void command(const std::string& name) {
        std::fprintf(to_, "%s\n", name.c_str());
        std::fflush(to_);
        wait_until_ready();
    }

private:
    void wait_until_ready() {
        constexpr std::string_view kBrokers = "DELIVERD_TEST_KAFKA_BROKERS=";
        constexpr std::string_view kSaslBrokers = "DELIVERD_TEST_KAFKA_SASL_BROKERS=";
        std::string line;
        for (int c = std::fgetc(from_); c != EOF; c = std::fgetc(from_)) {
            if (c != '\n') {
                line.push_back(static_cast<char>(c));
                continue;
            }
            if (line == "ready") return;
            if (line.starts_with(kBrokers)) brokers_ = line.substr(kBrokers.size());
            if (line.starts_with(kSaslBrokers)) sasl_brokers_ = line.substr(kSaslBrokers.size());
            line.clear();
        }
        throw std::runtime_error("the broker's harness ended; its standard error says why");
    }

    std::FILE* to_ = nullptr;
    std::FILE* from_ = nullptr;
    pid_t process_ = 0;
    std::string brokers_;
    std::string sasl_brokers_;
};

}  // namespace deliverd::sink
