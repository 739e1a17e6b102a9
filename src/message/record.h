// A Kafka record exactly as it is in its topic. Plain values, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace deliverd {

struct RecordHeader {
    std::string name;
    std::optional<std::string> value;  // none: null, which is not the same as empty
    friend bool operator==(const RecordHeader&, const RecordHeader&) = default;
};

enum class RecordTime { none, created, appended };  // what `timestamp_ms` is the time of

struct Record {
    std::string topic;
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    std::optional<std::string> key;
    std::optional<std::string> value;
    std::vector<RecordHeader> headers;  // in their order, repeated names included
    std::int64_t timestamp_ms = 0;      // Unix time
    RecordTime timestamp_type = RecordTime::none;
};

/// The size of key, value and headers, for limits in bytes.
[[nodiscard]] inline std::size_t content_bytes(const Record& record) {
    std::size_t bytes = (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0);
    for (const RecordHeader& header : record.headers) {
        bytes += header.name.size() + (header.value ? header.value->size() : 0);
    }
    return bytes;
}

}  // namespace deliverd
