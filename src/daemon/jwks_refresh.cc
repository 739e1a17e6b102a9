#include "daemon/jwks_refresh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/mutex.h"
#include "config/database_url.h"
#include "config/values.h"
#include "sink/http/http_get.h"

namespace deliverd::daemon {

Result<std::string> load_jwks(const config::JwksSource& source, const std::atomic<bool>& stopped) {
    if (!source.file.empty()) return config::read_secret_file(source.file);
    sink::HttpGetOptions options;
    options.url = source.url;
    options.ca_file = source.ca_file;
    options.max_bytes = api::kMaxJwksBytes;
    auto text = sink::http_get(options, stopped);
    // The error reaches the log; a URL may have a user and a password.
    if (!text) text.error().message = fmt::format("{}: {}", config::mask_http_url(source.url), text.error().message);
    return text;
}

bool JwksReader::look() {
    auto text = load_(stopped_);
    if (stopped_) return false;
    if (text && *text == text_ && problem_.empty()) return true;
    auto keys = text.and_then([](const std::string& found) { return api::parse_jwks(found); });
    if (!keys) {
        if (keys.error().message != problem_) {
            log_.error("cannot read the keys of the OpenID provider; the known ones stay in use",
                       {{"source", name_}, {"known", keys_->get()->keys.size()}, {"problem", keys.error().message}});
        }
        problem_ = keys.error().message;
        return false;
    }
    problem_.clear();
    text_ = std::move(*text);
    log_.write(keys->keys.empty() ? LogLevel::error : LogLevel::info, "the keys of the OpenID provider were read",
               {{"source", name_},
                {"usable", keys->keys.size()},
                {"left_out", fmt::format("{}", fmt::join(keys->left_out, "; "))}});
    keys_->set(std::move(*keys));
    return true;
}

JwksRefresh::JwksRefresh(std::shared_ptr<JwksReader> reader, JwksTimes times)
    : reader_(std::move(reader)), times_(times), thread_([this] { run(); }) {}

JwksRefresh::~JwksRefresh() {
    reader_->stop();
    {
        const MutexLock lock(mutex_);
        ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void JwksRefresh::hurry() {
    {
        const MutexLock lock(mutex_);
        if (hurried_) return;
        hurried_ = true;
    }
    wake_.notify_all();
}

void JwksRefresh::run() {
    MutexLock lock(mutex_);
    while (!ends_) {
        hurried_ = false;  // a caller during this look may have seen older keys, and gets another look
        lock.unlock();
        const bool done = reader_->look();
        lock.lock();
        wake_.wait_for(mutex_, times_.least, [this]() REQUIRES(mutex_) { return ends_; });
        wake_.wait_for(mutex_, (done ? times_.interval : times_.retry) - times_.least,
                       [this]() REQUIRES(mutex_) { return ends_ || hurried_; });
    }
}

}  // namespace deliverd::daemon
