#include "app/file_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "base/clock.h"

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

FileWatch::FileWatch(std::vector<std::string> paths, std::function<void()> read)
    : paths_(std::move(paths)), read_(std::move(read)), thread_([this] { watch(); }) {}

FileWatch::~FileWatch() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void FileWatch::watch() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
        lock.unlock();
        look();
        lock.lock();
        wake_.wait_for(lock, kLookInterval, [this] { return ends_; });
    }
}

void FileWatch::look() {
    std::string versions;  // before the reading: what changes during it is read again
    for (const std::string& path : paths_) versions += version_of(path) + "\n";
    if (versions == seen_) return;
    seen_ = std::move(versions);
    read_();
}

}  // namespace deliverd::app
