// Any bytes as a message of the replication stream: decoded values lie within the bytes, and a refusal says why.
//
// The first byte of an input chooses the layer; the rest is the message.
#include <functional>
#include <string_view>
#include <variant>

#include "require.h"
#include "wal/lsn.h"
#include "wal/pgoutput.h"
#include "wal/stream_message.h"

namespace deliverd::fuzz {
namespace {

/// Empty views and constants of the decoder may be elsewhere.
void require_within(std::string_view view, std::string_view bytes) {
    const std::less_equal<> before;
    require(view.empty() || view == "pg_catalog" ||
                (before(bytes.data(), view.data()) && before(view.data() + view.size(), bytes.data() + bytes.size())),
            "a view is of the bytes");
}

void check_refusal(const Error& error) {
    require(error.code == wal::kMalformed && error.error_class == ErrorClass::permanent && !error.message.empty() &&
                error.message.size() < 300,
            "a refusal says why");
}

void check_change(std::string_view bytes) {
    static wal::Decoder decoder;
    const auto change = decoder.decode(bytes);
    if (!change) return check_refusal(change.error());
    if (const auto* relation = std::get_if<wal::Relation>(&*change)) {
        require_within(relation->schema, bytes);
        require_within(relation->table, bytes);
        require(relation->columns.size() <= bytes.size(), "there are no more columns than bytes");
        for (const auto& column : relation->columns) require_within(column.name, bytes);
    } else if (const auto* insert = std::get_if<wal::Insert>(&*change)) {
        require(insert->row.size() <= bytes.size(), "there are no more cells than bytes");
        for (const auto& cell : insert->row) {
            require(cell.kind != wal::Cell::Kind::null || cell.bytes.empty(), "a null has no bytes");
            require_within(cell.bytes, bytes);
        }
    } else if (const auto* message = std::get_if<wal::LogicalMessage>(&*change)) {
        require_within(message->prefix, bytes);
        require_within(message->content, bytes);
        require(message->prefix.find('\0') == std::string_view::npos, "a prefix is a text");
    }
}

void check_stream_message(std::string_view bytes) {
    const auto message = wal::read_stream_message(bytes);
    if (!message) return check_refusal(message.error());
    if (const auto* data = std::get_if<wal::LogData>(&*message)) {
        require_within(data->payload, bytes);
        check_change(data->payload);
    }
}

void check_position(std::string_view text) {
    if (const auto lsn = wal::parse_lsn(text))
        require(wal::parse_lsn(wal::lsn_text(*lsn)) == lsn, "a position is kept");
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    const std::string_view bytes = fuzz::text_of(data, size);
    if (bytes.empty()) return 0;
    switch (bytes.front()) {
        case 'c':
            fuzz::check_change(bytes.substr(1));
            break;
        case 's':
            fuzz::check_stream_message(bytes.substr(1));
            break;
        case 'p':
            fuzz::check_position(bytes.substr(1));
            break;
        default:
            return -1;
    }
    return 0;
}
