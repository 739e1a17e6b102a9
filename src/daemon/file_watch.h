// Reads files again when they change.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace deliverd::daemon {

/// Calls `read` at once, and then whenever one of the files is changed, replaced, created or removed. Looks once per
/// second, on a thread of its own; `read` runs on that thread.
class FileWatch {
public:
    FileWatch(std::vector<std::string> paths, std::function<void()> read);
    /// Waits for a running `read`.
    ~FileWatch();
    FileWatch(const FileWatch&) = delete;
    FileWatch& operator=(const FileWatch&) = delete;

private:
    void watch();
    void look();

    const std::vector<std::string> paths_;
    const std::function<void()> read_;
    std::string seen_;  // identifies the versions of the files; of the thread alone
    Mutex mutex_;
    Condition wake_;
    bool ends_ GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace deliverd::daemon
