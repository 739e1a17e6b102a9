// Reads the fields of a message of PostgreSQL's protocol: integers in network byte order, texts that end with a zero
// byte, bytes with a length before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace deliverd::wal {

/// The first read past the end makes failed() true for good; from then on every read gives 0 or nothing. So a decoder
/// reads all fields of a message and checks once, which keeps a check out of every line. A count read after a failure
/// is 0, so no loop runs away.
class ByteReader {
public:
    explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

    /// The next `sizeof(Integer)` bytes.
    template <typename Integer>
    [[nodiscard]] Integer integer() {
        const std::string_view field = bytes(sizeof(Integer));
        std::uint64_t value = 0;
        for (const char byte : field) value = value << 8 | static_cast<unsigned char>(byte);
        return static_cast<Integer>(value);
    }

    /// The next `count` bytes; a view of what is being read.
    [[nodiscard]] std::string_view bytes(std::size_t count) {
        if (count > rest_.size()) return fail();
        const std::string_view field = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return field;
    }

    /// Up to the next zero byte, which is skipped.
    [[nodiscard]] std::string_view text() {
        const std::size_t end = rest_.find('\0');
        if (end == std::string_view::npos) return fail();
        const std::string_view field = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        return field;
    }

    [[nodiscard]] std::size_t left() const { return rest_.size(); }
    [[nodiscard]] bool failed() const { return failed_; }

private:
    std::string_view fail() {
        failed_ = true;
        rest_ = {};
        return {};
    }

    std::string_view rest_;
    bool failed_ = false;
};

}  // namespace deliverd::wal
