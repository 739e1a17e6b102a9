// How far each partition of a group member was given to the caller, and how far it was committed. Pure; one thread at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deliverd::deadletter {

struct Place {
    std::string topic;
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    friend bool operator==(const Place&, const Place&) = default;
};

class Positions {
public:
    /// Offsets are of the next record.
    struct Partition {
        std::optional<std::int64_t> begin{};      // the first record given since the last commit
        std::optional<std::int64_t> end{};        // after the last record given since the last commit
        std::optional<std::int64_t> withheld{};   // the first record that came and was not given
        std::optional<std::int64_t> committed{};  // once it is known
    };

    void add(std::string_view topic, std::int32_t partition) { topics_[std::string(topic)][partition] = {}; }
    /// All partitions were revoked.
    void clear() { topics_.clear(); }

    /// A record came. False when its partition is none of these.
    bool give(std::string_view topic, std::int32_t partition, std::int64_t offset) {
        Partition* found = find(topic, partition);
        if (found == nullptr) return false;
        if (!found->begin) found->begin = offset;
        found->end = offset + 1;
        return true;
    }

    /// A record came and is not given: it must come again, and no commit may cover it. Nothing after it is given before
    /// forget_given().
    void withhold(std::string_view topic, std::int32_t partition, std::int64_t offset) {
        Partition* found = find(topic, partition);
        if (found != nullptr && !found->withheld) found->withheld = offset;
    }

    /// What to commit: the end of each partition with uncommitted records.
    [[nodiscard]] std::vector<Place> to_commit() const {
        return places([](const Partition& partition) { return partition.end; });
    }
    void commit(std::string_view topic, std::int32_t partition, std::int64_t offset) {
        Partition* found = find(topic, partition);
        if (found == nullptr) return;
        found->committed = offset;
        found->begin = found->end = std::nullopt;
    }

    /// From where each partition must be read again so that nothing uncommitted is skipped.
    [[nodiscard]] std::vector<Place> to_give_again() const {
        return places(
            [](const Partition& partition) { return partition.begin ? partition.begin : partition.withheld; });
    }
    /// It is read again: its uncommitted records will be given again.
    void forget_given(std::string_view topic, std::int32_t partition) {
        Partition* found = find(topic, partition);
        if (found != nullptr) found->begin = found->end = found->withheld = std::nullopt;
    }

    [[nodiscard]] Partition* find(std::string_view topic, std::int32_t partition) {
        const auto of_topic = topics_.find(topic);
        if (of_topic == topics_.end()) return nullptr;
        const auto found = of_topic->second.find(partition);
        return found == of_topic->second.end() ? nullptr : &found->second;
    }

    /// Every partition for which `offset_of(Partition)` has an offset, with that offset.
    template <typename OffsetOf>
    [[nodiscard]] std::vector<Place> places(OffsetOf offset_of) const {
        std::vector<Place> out;
        for (const auto& [topic, partitions] : topics_) {
            for (const auto& [number, partition] : partitions) {
                if (const std::optional<std::int64_t> offset = offset_of(partition)) {
                    out.push_back({topic, number, *offset});
                }
            }
        }
        return out;
    }

private:
    std::map<std::string, std::map<std::int32_t, Partition>, std::less<>> topics_;
};

}  // namespace deliverd::deadletter
