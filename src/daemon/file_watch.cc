#include "daemon/file_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::daemon {

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
        const MutexLock lock(mutex_);
        ends_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void FileWatch::watch() {
    MutexLock lock(mutex_);
    while (!ends_) {
        lock.unlock();
        look();
        lock.lock();
        wake_.wait_for(mutex_, kLookInterval, [this]() REQUIRES(mutex_) { return ends_; });
    }
}

void FileWatch::look() {
    std::string versions;  // taken before the read: a change during the read is read again
    for (const std::string& path : paths_) versions += version_of(path) + "\n";
    if (versions == seen_) return;
    seen_ = std::move(versions);
    read_();
}

}  // namespace deliverd::daemon
