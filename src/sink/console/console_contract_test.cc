#include <boost/json.hpp>
#include <cstdio>
#include <stdexcept>

#include "sink/console/console_sink.h"
#include "sink/testing/contract.h"

namespace deliverd::sink {
namespace {

class ConsoleContractReceiver final : public ContractReceiver {
public:
    ConsoleContractReceiver() : file_(std::tmpfile()) {
        if (file_ == nullptr) throw std::runtime_error("no temporary file");
    }
    ~ConsoleContractReceiver() override { std::fclose(file_); }

    std::unique_ptr<Sink> sink() override { return make_console_sink(file_); }
    Message message(std::int64_t id, std::string body) override { return test_message(id, std::move(body)); }
    std::multiset<std::string> arrived() override {
        std::rewind(file_);
        std::multiset<std::string> out;
        std::string line;
        for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
            line.push_back(static_cast<char>(c));
            if (c != '\n') continue;
            out.emplace(boost::json::parse(line).at("body").as_string());
            line.clear();
        }
        return out;
    }
    std::optional<Message> oversized(std::int64_t /*id*/) override { return std::nullopt; }

private:
    std::FILE* file_;
};

INSTANTIATE_TEST_SUITE_P(Console, SinkContract, testing::Values([]() -> std::unique_ptr<ContractReceiver> {
                             return std::make_unique<ConsoleContractReceiver>();
                         }));

}  // namespace
}  // namespace deliverd::sink
