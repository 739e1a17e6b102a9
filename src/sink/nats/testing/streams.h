// For tests: makes streams and looks at what is in them, on a connection of its own.
#pragma once

#include <nats/nats.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace deliverd::sink {

/// The server that all tests share: DELIVERD_TEST_NATS_URL.
inline std::string shared_nats_url() {
    const char* url = std::getenv("DELIVERD_TEST_NATS_URL");
    if (url == nullptr || *url == '\0') {
        throw std::runtime_error("DELIVERD_TEST_NATS_URL is not set: run ./dev test, or name a server for tests");
    }
    return url;
}

/// A name no other test has; good for streams and as the first part of subjects.
inline std::string fresh_nats_name() {
    static std::atomic<int> count = 0;
    return "t" + std::to_string(::getpid()) + "_" + std::to_string(++count);
}

struct StoredMessage {
    std::string subject;
    std::string data;
    std::map<std::string, std::string> headers;
};

class Streams {
public:
    explicit Streams(const std::string& url) {
        must(natsConnection_ConnectTo(&connection_, url.c_str()));
        must(natsConnection_JetStream(&jetstream_, connection_, nullptr));
    }
    ~Streams() {
        jsCtx_Destroy(jetstream_);
        natsConnection_Destroy(connection_);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    /// A stream of that name with the subjects `name`.>, in a file.
    void add(const std::string& name, const std::function<void(jsStreamConfig&)>& change = {}) {
        jsStreamConfig config;
        jsStreamConfig_Init(&config);
        const std::string subject = name + ".>";
        const char* subjects[] = {subject.c_str()};
        config.Name = name.c_str();
        config.Subjects = subjects;
        config.SubjectsLen = 1;
        config.Storage = js_FileStorage;
        if (change) change(config);
        // The server removes its folder of streams with the last one in it, and refuses one that is made just then.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        jsErrCode code{};
        natsStatus status = NATS_OK;
        do {
            status = js_AddStream(nullptr, jetstream_, &config, nullptr, &code);
        } while (status != NATS_OK && code == JSStreamCreateErr && std::chrono::steady_clock::now() < end);
        if (status != NATS_OK) {
            const char* said = nats_GetLastError(nullptr);
            throw std::runtime_error("NATS made no stream: " + std::string(said == nullptr ? "" : said) + " (" +
                                     natsStatus_GetText(status) + ", " + std::to_string(static_cast<int>(code)) + ")");
        }
    }

    void remove(const std::string& name) { must(js_DeleteStream(jetstream_, name.c_str(), nullptr, nullptr)); }
    void purge(const std::string& name) { must(js_PurgeStream(jetstream_, name.c_str(), nullptr, nullptr)); }

    [[nodiscard]] std::uint64_t count(const std::string& name) {
        jsStreamInfo* info = nullptr;
        must(js_GetStreamInfo(&info, jetstream_, name.c_str(), nullptr, nullptr));
        const auto count = info->State.Msgs;
        jsStreamInfo_Destroy(info);
        return count;
    }

    [[nodiscard]] StoredMessage get(const std::string& name, std::uint64_t sequence) {
        natsMsg* message = nullptr;
        must(js_GetMsg(&message, jetstream_, name.c_str(), sequence, nullptr, nullptr));
        StoredMessage out{natsMsg_GetSubject(message),
                          {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))},
                          {}};
        const char** keys = nullptr;
        int count = 0;
        if (natsMsgHeader_Keys(message, &keys, &count) == NATS_OK) {
            for (int i = 0; i < count; ++i) {
                const char* value = nullptr;
                natsMsgHeader_Get(message, keys[i], &value);
                out.headers[keys[i]] = value == nullptr ? "" : value;
            }
            std::free(static_cast<void*>(keys));
        }
        natsMsg_Destroy(message);
        return out;
    }

    /// Everything in the stream, in its order.
    [[nodiscard]] std::vector<StoredMessage> all(const std::string& name) {
        std::vector<StoredMessage> out;
        const auto messages = count(name);
        for (std::uint64_t sequence = 1; sequence <= messages; ++sequence) out.push_back(get(name, sequence));
        return out;
    }

private:
    static void must(natsStatus status) {
        if (status != NATS_OK) throw std::runtime_error(std::string("NATS: ") + natsStatus_GetText(status));
    }

    natsConnection* connection_ = nullptr;
    jsCtx* jetstream_ = nullptr;
};

}  // namespace deliverd::sink
