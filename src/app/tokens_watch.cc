#include "app/tokens_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "app/config_auth.h"

namespace deliverd::app {

namespace {

constexpr Duration kLookInterval = std::chrono::seconds(1);

std::string version_of(const std::string& path) {
    struct stat found{};
    if (stat(path.c_str(), &found) != 0) return "none";
    return fmt::format("{} {} {} {}.{}", found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec,
                       found.st_mtim.tv_nsec);
}

}  // namespace

TokensWatch::TokensWatch(std::string path, std::shared_ptr<api::TokenList> tokens, Log& log)
    : path_(std::move(path)), tokens_(std::move(tokens)), log_(log), thread_([this] { watch(); }) {}

TokensWatch::~TokensWatch() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void TokensWatch::watch() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
        lock.unlock();
        look();
        lock.lock();
        wake_.wait_for(lock, kLookInterval, [this] { return ends_; });
    }
}

void TokensWatch::look() {
    std::string version = version_of(path_);  // before the reading: what changes during it is read again
    if (version == seen_) return;
    const bool first = seen_.empty();
    seen_ = std::move(version);
    std::vector<std::string> problems;
    auto tokens = read_tokens_file(path_, problems);
    if (!problems.empty()) {
        return log_.error("the tokens file is wrong; the tokens stay as they were", {{"problem", problems.front()}});
    }
    if (!first) log_.info("the tokens file was read again", {{"file", path_}, {"tokens", tokens.size()}});
    tokens_->set(std::move(tokens));
}

}  // namespace deliverd::app
