// A folder of its own that goes with it.
#pragma once

#include <string>

namespace deliverd::demo {

class TemporaryFolder {
public:
    /// "PREFIX-xxxxxx" where temporary files belong. path() is empty when it could not be made.
    explicit TemporaryFolder(const std::string& prefix);
    /// Removes it with everything in it.
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace deliverd::demo
