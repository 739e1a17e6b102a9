#include "base/uuid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/sha256.h"
#include "base/text.h"

namespace deliverd {

std::string make_uuid_v7(WallTime now, Random& random) {
    const auto since_epoch = std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count();
    const auto millis = static_cast<std::uint64_t>(std::max<std::int64_t>(since_epoch, 0));

    // RFC 9562, 5.7: 48 bits of milliseconds, version 7, 12 random bits; variant 10, 62 random bits.
    const std::uint64_t high = (millis << 16U) | 0x7000U | (random.next() >> 52U);
    const std::uint64_t low = (std::uint64_t{0b10} << 62U) | (random.next() >> 2U);

    std::string text = fmt::format("{:016x}{:016x}", high, low);
    for (const std::size_t dash : {8U, 13U, 18U, 23U}) text.insert(dash, 1, '-');
    return text;
}

std::function<std::string()> uuid_source() {
    // A std::function must be copyable; its copies share the source.
    return [random = std::make_shared<SystemRandom>()] { return make_uuid_v7(SystemClock().wall_now(), *random); };
}

std::string uuid_of_name(std::string_view name) {
    const std::string hash = sha256_hex(name);
    // Version 8 (custom), with its variant bits.
    return hash.substr(0, 8) + "-" + hash.substr(8, 4) + "-8" + hash.substr(13, 3) + "-a" + hash.substr(17, 3) + "-" +
           hash.substr(20, 12);
}

std::string canonical_uuid(std::string_view text) {
    constexpr std::size_t kLength = 36;
    if (text.size() != kLength) return {};
    std::string id = ascii_lower(text);
    for (std::size_t i = 0; i < kLength; ++i) {
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? id[i] != '-' : !hex_value(id[i])) return {};
    }
    return id;
}

}  // namespace deliverd
