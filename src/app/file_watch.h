// Reads files again when they change.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace deliverd::app {

/// Calls `read` at once, and then whenever one of the files has changed, been replaced, appeared or gone. Looks once a
/// second, on a thread of its own, on which `read` runs.
class FileWatch {
public:
    FileWatch(std::vector<std::string> paths, std::function<void()> read);
    /// Waits for a `read` under way.
    ~FileWatch();
    FileWatch(const FileWatch&) = delete;
    FileWatch& operator=(const FileWatch&) = delete;

private:
    void watch();
    void look();

    const std::vector<std::string> paths_;
    const std::function<void()> read_;
    std::string seen_;  // what tells the files' versions apart
    std::mutex mutex_;
    std::condition_variable wake_;
    bool ends_ = false;
    std::thread thread_;
};

}  // namespace deliverd::app
