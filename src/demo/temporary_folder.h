// A temporary folder that its object removes.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace deliverd::demo {

class TemporaryFolder {
public:
    /// "PREFIX-xxxxxx" where temporary files belong. path() is empty when it could not be made.
    explicit TemporaryFolder(const std::string& prefix) {
        std::error_code fault;
        const std::filesystem::path where = std::filesystem::temp_directory_path(fault);
        if (fault) return;
        std::string pattern = (where / (prefix + "-XXXXXX")).string();
        if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
    }
    /// Removes it with everything in it.
    ~TemporaryFolder() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace deliverd::demo
