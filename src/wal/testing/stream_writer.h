// For tests: writes messages of the replication stream field by field, as PostgreSQL's documentation lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deliverd::wal {

class StreamWriter {
public:
    explicit StreamWriter(char kind) : bytes_(1, kind) {}

    template <typename Integer>
    StreamWriter& integer(Integer value) {
        for (std::size_t i = sizeof(Integer); i > 0; --i) {
            bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * (i - 1)) & 0xFF);
        }
        return *this;
    }
    /// With the zero byte behind it.
    StreamWriter& text(std::string_view value) {
        bytes_ += value;
        bytes_ += '\0';
        return *this;
    }
    StreamWriter& bytes(std::string_view value) {
        bytes_ += value;
        return *this;
    }
    /// With the length before them.
    StreamWriter& counted(std::string_view value) {
        return integer(static_cast<std::uint32_t>(value.size())).bytes(value);
    }

    operator const std::string&() const { return bytes_; }  // NOLINT(google-explicit-constructor): it is a message

private:
    std::string bytes_;
};

}  // namespace deliverd::wal
