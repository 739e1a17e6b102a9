// A record of a dead-letter topic with any headers: it becomes a letter that both databases accept, the letter can be
// shown, and the record that is sent back has none of the failure headers.
//
// An input looks like an HTTP message: the topic, one header per line ("name: value", or "name" for a null; ":key" is
// the record's key), an empty line, the value.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_check.h"
#include "base/text.h"
#include "deadletter/failure_headers.h"
#include "deadletter/letter_json.h"
#include "deadletter/new_letter.h"
#include "deadletter/provenance.h"
#include "require.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"

namespace deliverd::fuzz {
namespace {

using namespace deadletter;

constexpr std::size_t kMaxValueBytes = 256;              // small, so that inputs reach it
constexpr std::string_view kMostReplays = "1000000000";  // the counter stops here

std::string_view take_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

Record record_of(std::string_view text) {
    Record record;
    record.topic = take_line(text);
    record.partition = 3;
    record.offset = 41;
    while (!text.empty()) {
        const std::string_view line = take_line(text);
        if (line.empty()) {
            record.value = std::string(text);
            break;
        }
        const std::size_t colon = line.find(": ");
        RecordHeader header{std::string(line.substr(0, colon)), std::nullopt};
        if (colon != std::string_view::npos) header.value = std::string(line.substr(colon + 2));
        if (header.name == ":key") {
            record.key = std::move(header.value);
        } else {
            record.headers.push_back(std::move(header));
        }
    }
    return record;
}

bool fits(const std::optional<std::string>& text, std::size_t most) {
    return !text || text->size() <= most;
}

void check_provenance(const Record& record, const store::Provenance& from) {
    require(!from.original_topic.empty(), "a letter has an original topic");
    require(from.original_topic.size() <= kMaxTopicBytes, "an original topic is no longer than a topic");
    if (is_topic_name(record.topic))
        require(is_topic_name(from.original_topic), "the original topic of a valid topic is valid");
    require(!from.error_message.empty() && from.error_message.size() <= kMaxErrorMessageBytes,
            "an error has a message");
    require(fits(from.error_class, kMaxErrorClassBytes) && fits(from.stack_trace, kMaxStackTraceBytes) &&
                fits(from.producer, kMaxProducerBytes),
            "texts from headers have a limit");
    require(from.original_partition.value_or(0) >= 0 && from.original_offset.value_or(0) >= 0,
            "partitions and offsets are not negative");
}

void check_letter(const Record& record) {
    const store::NewLetter letter = letter_of(record, kMaxValueBytes);
    check_provenance(record, letter.provenance);
    require(letter.record.headers == record.headers && letter.record.key == record.key, "a letter keeps its record");
    require(letter.truncated == (record.value.value_or("").size() > kMaxValueBytes),
            "a cut letter is marked as truncated");
    require(letter.truncated || letter.record.value == record.value, "a letter that is not cut keeps its value");
    require(!letter.payload || letter.payload == record.value, "a payload is the value");
    // The topic comes from a broker, so its name is valid.
    if (!is_topic_name(record.topic)) return;
    require(store::check_letter(letter).has_value(), "databases accept every letter");
    for (const Reduction what : {Reduction::payload, Reduction::provenance, Reduction::bytes}) {
        const store::NewLetter less = reduced(letter, what, "\xFF\nno");
        require(store::check_letter(less).has_value(), "databases accept a reduced letter");
        require(less.provenance.original_topic == letter.provenance.original_topic, "a reduced letter keeps its topic");
    }
}

void check_shown(const Record& record) {
    const store::NewLetter made = letter_of(record, kMaxValueBytes);
    store::LetterDetail detail;
    detail.letter.id = "01890a5d-ac96-774b-bcce-b302099a8057";
    detail.letter.source = made.source;
    detail.letter.provenance = made.provenance;
    detail.letter.payload = made.payload;
    detail.letter.topic = record.topic;
    detail.record = record;
    for (const std::string& shown : {detail_json(detail), raw_json(detail), row_json(detail.letter)}) {
        const auto problem = json_problem(shown, JsonKind::object);
        require(!problem || problem->find("U+0000") != std::string::npos, "a letter is shown as JSON");
    }
}

void check_stored_headers(const Record& record) {
    const std::string json = store::record_headers_json(record.headers);
    require(!json_problem(json, JsonKind::any), "databases accept every header");
    require(store::parse_record_headers(json) == record.headers, "stored headers are read unchanged");
}

void check_replay(const Record& record) {
    const Record replay = replay_of(record, "orders", "fresh");
    require(replay.topic == "orders" && !replay.headers.empty(), "a replay goes to its topic");
    require(replay.headers.back().name == kReplaysHeader && replay.headers.back().value, "a replay is counted");
    std::vector<RecordHeader> kept = record.headers;
    std::erase_if(kept, [](const RecordHeader& header) {
        return header.name == kReplaysHeader || failure_header(header.name) != nullptr;
    });
    require(std::vector(replay.headers.begin(), replay.headers.end() - 1) == kept, "a replay keeps the other headers");
    require(!record.value || replay.value == record.value, "a replay keeps the value");
    require(!record.key || replay.key == record.key, "a replay keeps the key");
    const auto left = provenance_of(replay);
    require(left.error_message == store::Provenance{}.error_message && !left.error_class && !left.stack_trace &&
                !left.producer && !left.original_offset,
            "a replay has no failure headers");
    const Record again = replay_of(replay, "orders", "fresh");
    require(again.key == replay.key && again.value == replay.value && again.headers.size() == replay.headers.size() &&
                (again.headers.back() != replay.headers.back() || replay.headers.back().value == kMostReplays),
            "a second replay differs from the first one only by its count");
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    const Record record = fuzz::record_of(fuzz::text_of(data, size));
    if (record.topic.empty()) return -1;  // every topic has a name
    fuzz::check_letter(record);
    fuzz::check_shown(record);
    fuzz::check_stored_headers(record);
    fuzz::check_replay(record);
    return 0;
}
