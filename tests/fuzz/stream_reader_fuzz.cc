// Any bytes as what a lane reads of its stream: the content of a logical message, a value of a row, and any sequence of
// changes. What becomes an event fits into a table, and the items make whole transactions.
//
// The first byte of an input chooses the layer. Changes stand behind each other, each after its length in one byte.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/json_check.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "require.h"
#include "store/event_row.h"
#include "wal/message_content.h"
#include "wal/progress.h"
#include "wal/stream_reader.h"
#include "wal/value_text.h"

namespace deliverd::fuzz {
namespace {

bool is_micros(std::string_view text) {
    const auto time = parse_rfc3339(text);
    return text.size() == 27 && time && rfc3339_micros(*time) == text;
}

void check_content(std::string_view bytes) {
    wal::MessageContent content;
    if (const auto problem = wal::read_message_content(bytes, content)) {
        require(problem->starts_with("the logical message is no event: ") && !find_invalid_utf8(*problem),
                "a refusal says why");
        return;
    }
    require(!json_problem(content.payload, JsonKind::any), "a payload is JSON that databases store");
    require(content.metadata.empty() || !json_problem(content.metadata, JsonKind::object), "metadata is an object");
    require(bytes.find(content.payload) != std::string_view::npos, "a payload is as written");
    require(content.created_at.empty() || is_micros(content.created_at), "a time is RFC 3339 with microseconds");
    for (const std::string& text : {content.aggregate_id, content.event_type, content.event_id}) {
        require(!find_invalid_utf8(text) && text.find('\0') == std::string::npos, "a text fits into a column");
    }
}

void check_value(std::string_view bytes) {
    std::string scratch;
    const std::string time(wal::time_text(bytes, scratch));
    // A date that no calendar has keeps its digits: PostgreSQL writes none.
    require(time.empty() || time.size() == 27, "a time has microseconds");
    for (const std::uint32_t type : {17U, 25U, 1042U}) {
        require(wal::value_text(bytes, type, scratch).size() <= bytes.size(), "a value does not grow");
    }
}

void check_changes(std::string_view bytes) {
    wal::StreamReaderOptions options;
    options.tables = {{"public", "outbox"}};
    options.message_prefix = "p";
    options.system_identifier = "7";
    wal::StreamReader reader(options);
    wal::Progress progress(1);
    std::optional<wal::Progress::Ticket> open;
    while (!bytes.empty()) {
        const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(bytes.front()), bytes.size() - 1);
        const std::string_view change = bytes.substr(1, length);
        bytes.remove_prefix(1 + length);
        const auto item = reader.read(wal::LogData{1, 1, change});
        if (!item) {
            require(item.error().error_class == ErrorClass::permanent && !item.error().message.empty(),
                    "a refusal says why");
            return;
        }
        // Progress asserts that transactions begin and end in turn.
        if (std::holds_alternative<wal::TransactionBegin>(*item)) open = progress.begin();
        if (const auto* end = std::get_if<wal::TransactionEnd>(&*item)) {
            progress.committed(end->end_lsn);
            open.reset();
        }
        const wal::StreamPlace* place = nullptr;
        if (const auto* event = std::get_if<wal::StreamedEvent>(&*item)) {
            place = &event->place;
            require(!event->message_id.empty(), "an event has an id");
            const auto row = wal::event_row(*event);
            require(row.row_id == event->row_id && row.message.body == event->payload, "an event is copied whole");
        }
        if (const auto* malformed = std::get_if<wal::MalformedMessage>(&*item)) place = &malformed->place;
        if (place != nullptr) require(place->stands_alone != open.has_value(), "an item has its place");
    }
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    const std::string_view bytes = fuzz::text_of(data, size);
    if (bytes.empty()) return 0;
    switch (bytes.front()) {
        case 'm':
            fuzz::check_content(bytes.substr(1));
            break;
        case 'v':
            fuzz::check_value(bytes.substr(1));
            break;
        case 'c':
            fuzz::check_changes(bytes.substr(1));
            break;
        default:
            return -1;
    }
    return 0;
}
