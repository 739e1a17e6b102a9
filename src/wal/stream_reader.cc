#include "wal/stream_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "base/uuid.h"
#include "wal/value_text.h"

namespace deliverd::wal {
namespace {

Failure out_of_order(std::string_view what) {
    return permanent(std::string(kMalformed),
                     fmt::format("the replication stream cannot be read: {}; is the server PostgreSQL, and nothing "
                                 "between that changes its bytes?",
                                 what));
}

}  // namespace

store::EventRow event_row(const StreamedEvent& event) {
    store::EventRow row;
    row.row_id = event.row_id;
    row.message.key = event.aggregate_id;
    row.message.type = event.event_type;
    row.message.body = event.payload;
    row.message.message_id = event.message_id;
    row.message.aggregate_type = event.aggregate_type;
    row.message.created_at = event.created_at;
    store::complete_event(row, event.metadata);
    return row;
}

StreamReader::StreamReader(StreamReaderOptions options) : options_(std::move(options)) {}

Result<StreamItem> StreamReader::read(const StreamMessage& message) {
    if (const auto* keepalive = std::get_if<Keepalive>(&message)) {
        // Within a transaction its position says nothing: the rest of the transaction lies before it.
        if (open_) return StreamItem();
        return StreamPosition{keepalive->server_end};
    }
    const auto& data = std::get<LogData>(message);
    TRY_ASSIGN(const Change change, decoder_.decode(data.payload));
    return read_change(change, data.start);
}

Result<StreamItem> StreamReader::read_change(const Change& change, Lsn lsn) {
    if (const auto* insert = std::get_if<Insert>(&change)) return read_row(*insert, lsn);
    if (const auto* message = std::get_if<LogicalMessage>(&change)) {
        if (message->transactional != open_.has_value()) return out_of_order("a logical message at the wrong place");
        return read_message(*message);
    }
    if (const auto* begin = std::get_if<Begin>(&change)) {
        if (open_) return out_of_order("a transaction begins within another one");
        open_ = *begin;
        ordinal_ = 0;
        return TransactionBegin{begin->transaction, begin->commit_lsn, begin->committed_at};
    }
    if (const auto* commit = std::get_if<Commit>(&change)) {
        if (!open_) return out_of_order("a transaction ends that did not begin");
        open_.reset();
        return TransactionEnd{commit->end_lsn, commit->committed_at, ordinal_};
    }
    if (const auto* relation = std::get_if<Relation>(&change)) TRY(describe(*relation));
    return StreamItem();
}

Result<void> StreamReader::describe(const Relation& relation) {
    std::optional<Table>& known = tables_[relation.id];
    known.reset();
    const bool ours = std::ranges::any_of(options_.tables, [&](const store::TablePlace& place) {
        return place.schema == relation.schema && place.table == relation.table;
    });
    if (!ours) return {};

    const auto find = [&](const std::string& name) -> OptionalColumn {
        if (name.empty()) return std::nullopt;
        const auto column = std::ranges::find(relation.columns, name, &RelationColumn::name);
        if (column == relation.columns.end()) return std::nullopt;
        return Column{static_cast<std::size_t>(column - relation.columns.begin()), column->type};
    };
    const store::EventColumns& names = options_.columns;
    Table table;
    std::vector<std::string> missing;
    const auto need = [&](const std::string& name, Column& column) {
        const OptionalColumn found = find(name);
        if (found) column = *found;
        if (!found) missing.push_back(name);
    };
    need(names.id, table.id);
    need(names.aggregate_id, table.aggregate_id);
    need(names.event_type, table.event_type);
    need(names.payload, table.payload);
    if (!missing.empty()) {
        return permanent(std::string(kColumnMissing),
                         fmt::format("the rows of {}.{} arrive without the column {}: name it in the lane's `columns`, "
                                     "or add it to the table and to the publication's list of columns",
                                     relation.schema, relation.table, store::listed(missing)));
    }
    table.aggregate_type = find(names.aggregate_type);
    table.event_id = find(names.event_id);
    table.metadata = find(names.metadata);
    table.created_at = find(names.created_at);
    table.width = relation.columns.size();
    known = table;
    return {};
}

StreamPlace StreamReader::place_of_next(Lsn lsn) {
    ASSERT(open_);
    return {.transaction = open_->transaction, .commit_lsn = open_->commit_lsn, .lsn = lsn, .ordinal = ordinal_++};
}

Result<StreamItem> StreamReader::read_row(const Insert& insert, Lsn lsn) {
    if (!open_) return out_of_order("a row outside a transaction");
    const auto described = tables_.find(insert.relation);
    if (described == tables_.end()) return out_of_order("a row of a table that was not described");
    if (!described->second) return StreamItem();
    const Table& table = *described->second;
    if (insert.row.size() != table.width) return out_of_order("a row with another number of columns than its table");

    std::size_t used = 0;
    const auto text = [&](const OptionalColumn& column) -> std::string_view {
        if (!column) return {};
        const Cell& cell = insert.row[column->at];
        if (cell.kind == Cell::Kind::null) return {};
        return value_text(cell.bytes, column->type, scratch_[used++]);
    };
    StreamedEvent event;
    event.row_id = text(table.id);
    // Nothing can name such a row, and a relay that polls never reads it either.
    if (event.row_id.empty()) return StreamItem();
    event.aggregate_id = text(table.aggregate_id);
    event.event_type = text(table.event_type);
    event.payload = text(table.payload);
    event.metadata = text(table.metadata);
    event.message_id = text(table.event_id);
    if (event.message_id.empty()) event.message_id = event.row_id;
    event.aggregate_type = text(table.aggregate_type);
    if (table.created_at) event.created_at = time_text(insert.row[table.created_at->at].bytes, scratch_[used]);
    event.place = place_of_next(lsn);
    return event;
}

StreamItem StreamReader::read_message(const LogicalMessage& message) {
    if (options_.message_prefix.empty() || message.prefix != options_.message_prefix) {
        // One that is not transactional has a position of its own, which may be confirmed.
        if (message.transactional) return {};
        return StreamPosition{message.lsn};
    }
    const StreamPlace place =
        message.transactional ? place_of_next(message.lsn) : StreamPlace{.lsn = message.lsn, .stands_alone = true};
    auto reason = read_message_content(message.content, content_);
    if (reason || content_.event_id.empty()) {
        content_.event_id = uuid_of_name(fmt::format("{} {}", options_.system_identifier, lsn_text(message.lsn)));
    }
    if (reason) return MalformedMessage{place, message.content, content_.event_id, std::move(*reason)};
    if (content_.created_at.empty() && message.transactional) content_.created_at = event_time(open_->committed_at);
    return StreamedEvent{.place = place,
                         .row_id = {},
                         .aggregate_id = content_.aggregate_id,
                         .event_type = content_.event_type,
                         .payload = content_.payload,
                         .metadata = content_.metadata,
                         .message_id = content_.event_id,
                         .created_at = content_.created_at,
                         .aggregate_type = {}};
}

}  // namespace deliverd::wal
