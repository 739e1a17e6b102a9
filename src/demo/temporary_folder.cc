#include "demo/temporary_folder.h"

#include <cstdlib>
#include <filesystem>

namespace deliverd::demo {

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
    std::error_code fault;
    const std::filesystem::path where = std::filesystem::temp_directory_path(fault);
    if (fault) return;
    std::string pattern = (where / (prefix + "-XXXXXX")).string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace deliverd::demo
