// What `deliverd doctor` is told.
#pragma once

#include <string>

namespace deliverd::store {

/// One thing that was looked at.
struct Finding {
    std::string check;
    bool ok = false;
    std::string message;  // what was found, and what to do about it
};

}  // namespace deliverd::store
