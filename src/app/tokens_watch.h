// Reads `auth.tokens_file` again when it changes.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/api.h"
#include "base/log.h"

namespace deliverd::app {

/// Looks once a second, on a thread of its own. A file that cannot be read or is wrong is reported, and the tokens stay
/// as they are until it is right.
class TokensWatch {
public:
    /// `log` outlives it.
    TokensWatch(std::string path, std::shared_ptr<api::TokenList> tokens, Log& log);
    ~TokensWatch();
    TokensWatch(const TokensWatch&) = delete;
    TokensWatch& operator=(const TokensWatch&) = delete;

private:
    void watch();
    void look();

    const std::string path_;
    const std::shared_ptr<api::TokenList> tokens_;
    Log& log_;
    std::string seen_;  // what tells the file's versions apart
    std::mutex mutex_;
    std::condition_variable wake_;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace deliverd::app
