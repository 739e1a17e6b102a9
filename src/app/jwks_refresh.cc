#include "app/jwks_refresh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "app/config_values.h"
#include "sink/http/http_get.h"

namespace deliverd::app {

Result<std::string> load_jwks(const JwksSource& source, const std::atomic<bool>& stopped) {
    if (!source.file.empty()) return read_secret_file(source.file);
    sink::HttpGetOptions options;
    options.url = source.url;
    options.ca_file = source.ca_file;
    options.max_bytes = api::kMaxJwksBytes;
    auto text = sink::http_get(options, stopped);
    if (!text) text.error().message = fmt::format("{}: {}", source.url, text.error().message);
    return text;
}

bool JwksReader::look() {
    auto text = load_(stopped_);
    if (stopped_) return false;
    if (text && *text == text_ && problem_.empty()) return true;
    auto keys = text.and_then([](const std::string& found) { return api::parse_jwks(found); });
    if (!keys) {
        if (keys.error().message != problem_) {
            log_.error("the keys of the OpenID provider cannot be had; those that are known stay in use",
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
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void JwksRefresh::hurry() {
    {
        const std::lock_guard lock(mutex_);
        if (hurried_) return;
        hurried_ = true;
    }
    wake_.notify_all();
}

void JwksRefresh::run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
        hurried_ = false;  // whoever asks during the look may have seen older keys, and is looked for again
        lock.unlock();
        const bool done = reader_->look();
        lock.lock();
        wake_.wait_for(lock, times_.least, [this] { return ends_; });
        wake_.wait_for(lock, (done ? times_.interval : times_.retry) - times_.least,
                       [this] { return ends_ || hurried_; });
    }
}

}  // namespace deliverd::app
