#include "base/uuid.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace deliverd {

std::string make_uuid_v7(WallTime now, Random& random) {
    const auto since_epoch = std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count();
    const auto millis = static_cast<std::uint64_t>(std::max<std::int64_t>(since_epoch, 0));

    // RFC 9562, 5.7: 48 bits of milliseconds, version 7, 12 random bits; variant 10, 62 random bits.
    const std::uint64_t high = (millis << 16U) | 0x7000U | (random.next() >> 52U);
    const std::uint64_t low = (std::uint64_t{0b10} << 62U) | (random.next() >> 2U);

    constexpr std::string_view kHex = "0123456789abcdef";
    std::string text;
    text.reserve(36);
    for (unsigned nibble = 0; nibble < 32; ++nibble) {
        if (nibble == 8 || nibble == 12 || nibble == 16 || nibble == 20) text.push_back('-');
        const std::uint64_t half = nibble < 16 ? high : low;
        text.push_back(kHex[(half >> (60U - 4U * (nibble % 16U))) & 0xFU]);
    }
    return text;
}

std::string canonical_uuid(std::string_view text) {
    constexpr std::size_t kLength = 36;
    if (text.size() != kLength) return {};
    std::string id(text);
    for (std::size_t i = 0; i < kLength; ++i) {
        char& c = id[i];
        if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return {};
    }
    return id;
}

}  // namespace deliverd
