#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/random.h"
#include "base/uuid.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/record_headers.h"

namespace deliverd::store::postgres {
namespace {

std::string_view name_of(RecordTime type) {
    switch (type) {
        case RecordTime::created:
            return "created";
        case RecordTime::appended:
            return "appended";
        case RecordTime::none:
            break;
    }
    return "none";
}

std::size_t bytes_of(const NewLetter& letter) {
    return letter.record.value.value_or("").size() + letter.record.key.value_or("").size() +
           letter.payload.value_or("").size() + letter.provenance.stack_trace.value_or("").size();
}

/// Ids of one call sort as the letters were given, so that a redrive sends them in that order: their number stands
/// where a UUID version 7 has random bits.
class Ids {
public:
    std::string of(std::size_t number) {
        constexpr std::size_t kBits = 12;
        constexpr std::size_t kMask = (1U << kBits) - 1;
        std::string id = make_uuid_v7(now_, random_);
        id.replace(15, 3, fmt::format("{:03x}", (number >> kBits) & kMask));
        id.replace(19, 4, fmt::format("8{:03x}", number & kMask));
        return id;
    }

private:
    SystemRandom random_;
    WallTime now_ = SystemClock().wall_now();
};

using View = std::optional<std::string_view>;

View view(const std::optional<std::string>& text) {
    return text ? View(*text) : std::nullopt;
}

/// The arrays of a statement.
struct Columns {
    std::vector<std::optional<std::string>> ids, headers;
    std::vector<View> topics, types, keys, values, payloads, original_topics, messages, classes, traces, producers,
        sources;
    std::vector<std::int32_t> truncated;
    std::vector<std::int64_t> times;
    std::vector<std::optional<std::int32_t>> partitions, original_partitions;
    std::vector<std::optional<std::int64_t>> offsets, original_offsets;

    void add(const NewLetter& letter, std::string id) {
        const Record& record = letter.record;
        const Provenance& from = letter.provenance;
        const bool from_topic = !record.topic.empty();
        if (!letter.id.empty()) id = letter.id;
        ids.emplace_back(std::move(id));
        headers.emplace_back(record_headers_json(record.headers));
        topics.push_back(from_topic ? View(record.topic) : std::nullopt);
        types.emplace_back(name_of(record.timestamp_type));
        keys.push_back(view(record.key));
        values.push_back(view(record.value));
        payloads.push_back(view(letter.payload));
        original_topics.emplace_back(from.original_topic);
        messages.emplace_back(from.error_message);
        classes.push_back(view(from.error_class));
        traces.push_back(view(from.stack_trace));
        producers.push_back(view(from.producer));
        sources.emplace_back(letter.source);
        partitions.push_back(from_topic ? std::optional(record.partition) : std::nullopt);
        truncated.push_back(letter.truncated ? 1 : 0);
        offsets.push_back(from_topic ? std::optional(record.offset) : std::nullopt);
        times.push_back(record.timestamp_ms);
        original_partitions.push_back(from.original_partition);
        original_offsets.push_back(from.original_offset);
    }
    [[nodiscard]] Params params() const {
        Params out;
        out.text_array(ids).text_array(topics).int32_array(partitions).int64_array(offsets).int64_array(times);
        out.text_array(types).bytes_array(keys).bytes_array(values).text_array(headers).text_array(payloads);
        out.int32_array(truncated).text_array(original_topics).int32_array(original_partitions);
        out.int64_array(original_offsets).text_array(messages).text_array(classes).text_array(traces);
        out.text_array(producers).text_array(sources);
        return out;
    }
};

/// In the order of the records, so that two that store the same ones wait in one direction.
std::vector<Params> batches(std::span<const NewLetter> letters) {
    std::vector<std::size_t> order(letters.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t index) {
        const Record& record = letters[index].record;
        return std::tuple(std::string_view(record.topic), record.partition, record.offset, record.timestamp_ms, index);
    });
    Ids ids;
    std::vector<Params> out;
    Columns columns;
    std::size_t bytes = 0;
    for (const std::size_t index : order) {
        const std::size_t size = bytes_of(letters[index]);
        if (!columns.ids.empty() && (columns.ids.size() == kMaxStoredAtOnce || bytes + size > kMaxStoredBytesAtOnce)) {
            out.push_back(columns.params());
            columns = {};
            bytes = 0;
        }
        columns.add(letters[index], ids.of(index));
        bytes += size;
    }
    out.push_back(columns.params());
    return out;
}

std::int64_t rows_written(const PGresult* result) {
    const std::string_view text = PQcmdTuples(const_cast<PGresult*>(result));
    std::int64_t rows = 0;
    std::from_chars(text.data(), text.data() + text.size(), rows);
    return rows;
}

/// The server refused the data themselves (also a rule that somebody made for the table), or their size.
bool refused_data(const Connection& connection) {
    const std::string_view state = connection.refused_with();
    return state.starts_with("22") || state.starts_with("23") || state.starts_with("54");
}

}  // namespace

Result<std::int64_t> PostgresDeadLetters::store(std::span<const NewLetter> letters) {
    if (letters.empty()) return 0;
    const std::vector<Params> all = batches(letters);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const auto run = [&](const Statement& statement) {
        std::vector<Step> steps;
        for (const Params& params : all) steps.push_back(Step{&statement, &params});
        return (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    };
    const bool by_id = !letters.front().id.empty();
    auto results = run(by_id ? sql_.store_by_id : sql_.store);
    // What is JSON and what jsonb can hold is not quite the same (huge numbers, half surrogates). A statement that
    // finds out for each payload costs much more, so that it is only tried when there is one.
    if (!results && refused_data(**connection) && (*connection)->usable())
        results = run(by_id ? sql_.store_by_id_any_json : sql_.store_any_json);
    if (!results) {
        Error error = std::move(results.error());
        if (refused_data(**connection)) error.code = kLetterRefused;
        return Failure(std::move(error));
    }
    std::int64_t fresh = 0;
    for (const PgResult& result : *results) fresh += rows_written(result.get());
    return fresh;
}

}  // namespace deliverd::store::postgres
