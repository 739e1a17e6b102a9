// Owns what a C library made: Handle<CURL, curl_easy_cleanup>.
#pragma once

#include <memory>

namespace deliverd {

template <auto kRelease>
struct Release {
    template <typename T>
    void operator()(T* handle) const {
        static_cast<void>(kRelease(handle));
    }
};

template <typename T, auto kRelease>
using Handle = std::unique_ptr<T, Release<kRelease>>;

}  // namespace deliverd
