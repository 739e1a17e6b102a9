// The attributes that a sink sends with an event's body: names and values, before each protocol's own spelling. Pure
// code.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "message/message.h"

namespace deliverd {

enum class EventFormat {
    plain,        // aggregate_id, event_type, created_at and the metadata's entries
    cloudevents,  // CloudEvents 1.0, binary mode
};

struct EventAttributesOptions {
    EventFormat format = EventFormat::plain;
    std::string source;  // cloudevents: the attribute `source`, a URI reference
};

/// A set of names. A few are compared one by one, which allocates nothing; many are hashed, so that the cost of an
/// event grows linearly with its entries.
class SeenNames {
public:
    /// False when it was added before. `name` must outlive the set.
    bool add(std::string_view name) {
        if (!many_.empty()) return many_.insert(name).second;
        if (std::find(few_.begin(), few_.begin() + count_, name) != few_.begin() + count_) return false;
        if (count_ < std::ssize(few_)) {
            few_[static_cast<std::size_t>(count_++)] = name;
        } else {
            many_.insert(few_.begin(), few_.end());
            many_.insert(name);
        }
        return true;
    }

private:
    std::array<std::string_view, 16> few_;
    std::ptrdiff_t count_ = 0;
    std::unordered_set<std::string_view> many_;
};

using Attributes = std::vector<std::pair<std::string, std::string>>;

/// plain: `message_id`, `aggregate_id`, `event_type`, `created_at` (where known), then the metadata's entries
/// (Message::headers) in their order, without those that have one of these names.
[[nodiscard]] Attributes plain_attributes(const Message& message);

/// The same without copies: calls `take(name, value)` with views of the message.
template <typename Take>
void each_plain_attribute(const Message& message, Take take) {
    using Pair = std::pair<std::string_view, std::string_view>;
    const std::array<Pair, 4> own{{{"message_id", message.message_id},
                                   {"aggregate_id", message.key},
                                   {"event_type", message.type},
                                   {"created_at", message.created_at}}};
    const auto known = own.begin() + (message.created_at.empty() ? 3 : 4);
    SeenNames seen;
    std::for_each(own.begin(), known, [&](const Pair& pair) {
        seen.add(pair.first);
        take(pair.first, pair.second);
    });
    for (const auto& [name, value] : message.headers) {
        if (seen.add(name)) take(std::string_view(name), std::string_view(value));
    }
}

/// cloudevents, without any prefix: `specversion` 1.0, `id`, `source`, `type` (the event type as written), `time`
/// (where known), `subject` (the aggregate), `partitionkey` (the aggregate), then the metadata's entries as extension
/// attributes: names in small letters and digits, other characters left out; those whose name is then empty or one of
/// the above are left out.
[[nodiscard]] Attributes cloudevents_attributes(const Message& message, std::string_view source);

/// A header's value by CloudEvents' HTTP binding: everything but printable ASCII, and space, `"` and `%`, is
/// percent-encoded as UTF-8.
[[nodiscard]] std::string percent_encoded(std::string_view value);

/// Whether a header of HTTP or NATS carries the value unchanged: visible ASCII, and spaces within.
[[nodiscard]] bool stands_in_a_header(std::string_view value);

/// A value in the plain format: unchanged if stands_in_a_header(), otherwise percent_encoded(). A value with a `%` is
/// encoded too, so that decoding every value gives the original.
[[nodiscard]] std::string plain_header_value(std::string_view value);

/// A metadata entry's name as an HTTP header: "X-" in front; `_`, and every character that a header's name may not
/// have, becomes `-`. correlation_id → X-correlation-id.
[[nodiscard]] std::string http_header_name(std::string_view name);

}  // namespace deliverd
