#include "deadletter/provenance.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "deadletter/failure_headers.h"
#include "deadletter/ports.h"
#include "store/letter_rules.h"

namespace deliverd::deadletter {
namespace {

constexpr std::int64_t kMaxReplays = 1'000'000'000;  // the count stops there

/// Headers of a record that say something about a failure, in the record's order.
class FailureDetails {
public:
    explicit FailureDetails(const Record& record) {
        for (const RecordHeader& header : record.headers) {
            const FailureHeader* entry = failure_header(header.name);
            if (entry != nullptr && header.value && !header.value->empty()) said_.push_back({entry, *header.value});
        }
    }

    struct Value {
        const FailureHeader* entry;
        std::string_view value;
    };

    /// The first one in the table's order for which `usable` is true; of a repeated one the oldest or the newest.
    template <typename Usable>
    [[nodiscard]] std::optional<Value> first(bool oldest, Usable usable) const {
        std::optional<Value> best;
        for (const Value& said : said_) {
            if (!usable(said) || (best && best->entry < said.entry)) continue;
            const bool newest_first = said.entry->family == kSmallRyeFamily;
            const bool keep_earlier = oldest != newest_first;
            if (best && best->entry == said.entry && keep_earlier) continue;
            best = said;
        }
        return best;
    }
    [[nodiscard]] std::optional<Value> failure(Meaning meaning) const {
        return first(false, [meaning](const Value& said) { return said.entry->meaning == meaning; });
    }
    [[nodiscard]] std::optional<Value> origin(Meaning meaning, std::string_view family) const {
        return first(true,
                     [&](const Value& said) { return said.entry->meaning == meaning && said.entry->family == family; });
    }

private:
    std::vector<Value> said_;
};

std::optional<std::int64_t> decimal(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

std::int64_t big_endian(std::string_view bytes) {
    std::uint64_t number = 0;
    for (const char byte : bytes) number = (number << 8U) | static_cast<unsigned char>(byte);
    return bytes.size() == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(number))
                             : static_cast<std::int64_t>(number);
}

/// None when it is not a number of that form, or -1 ("not known"). Digits are accepted for binary forms too: not
/// everyone who uses Spring's names writes Spring's bytes.
std::optional<std::int64_t> number_of(const std::optional<FailureDetails::Value>& said) {
    if (!said) return std::nullopt;
    const std::size_t width = said->entry->form == Form::int32_be ? 4 : said->entry->form == Form::int64_be ? 8 : 0;
    if (width == 0 || said->value.size() != width) return decimal(said->value);
    const std::int64_t number = big_endian(said->value);
    return number < 0 ? std::nullopt : std::optional(number);
}

/// "java.lang.IllegalStateException: no such order" -> "java.lang.IllegalStateException"
std::string_view class_in(std::string_view exception) {
    return exception.substr(0, std::min(exception.find(": "), exception.find_first_of("\r\n")));
}

void read_origin(const FailureDetails& details, const Record& record, store::Provenance& provenance) {
    const auto topic = details.first(true, [](const FailureDetails::Value& said) {
        return said.entry->meaning == Meaning::original_topic && is_topic_name(said.value);
    });
    if (!topic) {
        std::string_view name = record.topic;
        if (name.size() > kDeadLetterSuffix.size() && name.ends_with(kDeadLetterSuffix)) {
            name.remove_suffix(kDeadLetterSuffix.size());
        }
        provenance.original_topic = presentable(name, kMaxTopicBytes);
        return;
    }
    provenance.original_topic = std::string(topic->value);
    const std::string_view family = topic->entry->family;
    const auto partition = number_of(details.origin(Meaning::original_partition, family));
    if (partition && std::in_range<std::int32_t>(*partition)) {
        provenance.original_partition = static_cast<std::int32_t>(*partition);
    }
    provenance.original_offset = number_of(details.origin(Meaning::original_offset, family));
}

std::optional<std::string> error_class_of(const FailureDetails& details) {
    auto said = details.failure(Meaning::error_class);
    if (!said) return std::nullopt;
    if (said->value == kSpringWrapper) {
        const auto cause = details.first(false, [](const FailureDetails::Value& other) {
            return other.entry->name == kSpringCause || other.entry->name == kSpringRetryCause;
        });
        if (cause) said = cause;
    }
    const std::string_view name = said->entry->form == Form::exception ? class_in(said->value) : said->value;
    return presentable(name, kMaxErrorClassBytes);
}

/// The first family that says anything: its name, and who gave up if a header says so.
std::optional<std::string> producer_of(const FailureDetails& details) {
    const auto said =
        details.first(true, [](const FailureDetails::Value& any) { return any.entry->family != kPlainFamily; });
    if (!said) return std::nullopt;
    const std::string_view family = said->entry->family;
    const auto who = details.first(false, [family](const FailureDetails::Value& any) {
        return any.entry->family == family && any.entry->meaning == Meaning::producer;
    });
    std::string producer(family);
    if (who) producer.append(": ").append(who->value);
    return presentable(producer, kMaxProducerBytes);
}

const RecordHeader* last_header(const Record& record, std::string_view name) {
    const auto at = std::find_if(record.headers.rbegin(), record.headers.rend(),
                                 [name](const RecordHeader& header) { return header.name == name; });
    return at == record.headers.rend() ? nullptr : &*at;
}

bool has_family(const Record& record, std::string_view family) {
    return std::ranges::any_of(record.headers, [family](const RecordHeader& header) {
        const FailureHeader* entry = failure_header(header.name);
        return entry != nullptr && entry->family == family;
    });
}

/// Works for a letter in a listing too, which has no headers: `producer` comes from them.
bool is_of_family(const store::LetterDetail& detail, std::string_view family) {
    const std::optional<std::string>& producer = detail.letter.provenance.producer;
    const bool named = producer && producer->starts_with(family) &&
                       (producer->size() == family.size() || (*producer)[family.size()] == ':');
    return named || has_family(detail.record, family);
}

std::int64_t replays_of(const Record& record) {
    const RecordHeader* header = last_header(record, kReplaysHeader);
    if (header == nullptr || !header->value) return 0;
    return std::min(decimal(*header->value).value_or(0), kMaxReplays - 1);
}

void restore_unreadable(const Record& dead, Record& replay) {
    const RecordHeader* bytes = last_header(dead, kUnreadableBytes);
    if (bytes == nullptr || !bytes->value) return;
    const RecordHeader* is_key = last_header(dead, kUnreadableIsKey);
    std::optional<std::string>& lost = is_key != nullptr && is_key->value == "true" ? replay.key : replay.value;
    if (!lost) lost = bytes->value;
}

std::string refusal_of_record(const store::LetterDetail& detail, std::string_view pattern) {
    const std::string& origin = detail.letter.provenance.original_topic;
    if (!is_topic_name(origin)) {
        return "its original topic '" + one_line(shorten(origin, kMaxTopicBytes)) + "' is not a name that Kafka allows";
    }
    if (is_dead_letter_topic(origin, pattern) || origin == detail.letter.topic) {
        return "its original topic '" + origin +
               "' is itself for dead letters: sending it there would only bring it back here";
    }
    if (is_of_family(detail, kReporterFamily)) {
        return "the record is a connector's report about the failure, not the message itself; that one is in '" +
               origin + "', at the partition and offset that the headers name";
    }
    if (!detail.record.key && !detail.record.value && has_family(detail.record, kShareGroupFamily)) {
        return "the broker put no copy of the message into the dead-letter topic; the message itself is in '" + origin +
               "', at the partition and offset that the headers name";
    }
    if (!detail.letter.topic && detail.letter.value_bytes == 0 && !detail.record.value && !detail.letter.payload &&
        !detail.letter.payload_left_out) {
        return "there is nothing to send: it has neither a value nor a payload";
    }
    return {};
}

}  // namespace

std::string presentable(std::string_view bytes, std::size_t max_bytes) {
    // A little more than fits, so that shorten() makes the cut; not all of it, which may be megabytes.
    constexpr std::size_t kLongestCharacter = 4;
    std::string text = valid_utf8(bytes.substr(0, max_bytes + kLongestCharacter));
    for (std::size_t at = text.find('\0'); at != std::string::npos; at = text.find('\0', at)) {
        text.replace(at, 1, "\uFFFD");
    }
    return shorten(text, max_bytes);
}

store::Provenance provenance_of(const Record& record) {
    const FailureDetails details(record);
    store::Provenance provenance;
    read_origin(details, record, provenance);
    if (const auto message = details.failure(Meaning::error_message)) {
        provenance.error_message = presentable(message->value, kMaxErrorMessageBytes);
    }
    provenance.error_class = error_class_of(details);
    if (const auto trace = details.failure(Meaning::stack_trace)) {
        provenance.stack_trace = presentable(trace->value, kMaxStackTraceBytes);
    }
    provenance.producer = producer_of(details);
    return provenance;
}

Record replay_of(Record dead, std::string_view original_topic, std::string_view fresh_key) {
    const std::int64_t replays = replays_of(dead) + 1;
    Record replay{.topic = std::string(original_topic),
                  .key = std::move(dead.key),
                  .value = std::move(dead.value),
                  .headers = {}};
    restore_unreadable(dead, replay);
    if (!replay.key && replay.value) replay.key = std::string(fresh_key);
    std::erase_if(dead.headers, [](const RecordHeader& header) {
        return header.name == kReplaysHeader || failure_header(header.name) != nullptr;
    });
    replay.headers = std::move(dead.headers);
    replay.headers.push_back({std::string(kReplaysHeader), std::to_string(replays)});
    return replay;
}

Record replay_of(store::LetterDetail letter, std::string_view fresh_key) {
    const bool only_payload = !letter.letter.topic && !letter.record.value && letter.letter.payload;
    if (only_payload) letter.record.value = std::move(letter.letter.payload);
    return replay_of(std::move(letter.record), letter.letter.provenance.original_topic, fresh_key);
}

std::string replay_refusal(const store::LetterDetail& letter, std::string_view pattern) {
    if (letter.letter.lane_row) {
        if (letter.letter.lane_row->outbox != "orders") return store::retry_refusal(letter.letter);
        if (letter.letter.in_doubt) {
            return "a dead order is not sent again: its receiver may have it; find out before you make a new one";
        }
        return "a dead order is not sent again: its input was refused; make a new order instead";
    }
    if (letter.letter.truncated) {
        return "only the first " + std::to_string(letter.letter.value_bytes) +
               " bytes of its value were stored, so it cannot be sent back";
    }
    if (is_of_spool(letter.letter)) return {};
    if (!pattern.empty()) return refusal_of_record(letter, pattern);
    return letter.letter.topic ? "it was read from Kafka, and without `kafka` in the configuration nothing would be "
                                 "published"
                               : "";
}

}  // namespace deliverd::deadletter
