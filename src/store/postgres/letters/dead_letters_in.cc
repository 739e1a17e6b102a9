#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/random.h"
#include "base/try.h"
#include "base/uuid.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/record_headers.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

std::string_view name_of(RecordTime type) {
    return type == RecordTime::created ? "created" : type == RecordTime::appended ? "appended" : "none";
}

std::size_t bytes_of(const NewLetter& letter) {
    const auto size = [](const std::optional<std::string>& text) { return text ? text->size() : 0; };
    return size(letter.record.value) + size(letter.record.key) + size(letter.payload) +
           size(letter.provenance.stack_trace);
}

/// Ids of one call sort as the letters were given, so that a redrive sends them in that order: their number is
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

/// A letter, and the id under which it is stored.
struct IdentifiedLetter {
    const NewLetter* letter;
    std::string id;
};

/// The arrays of store_letters.
Params store_params(std::span<const IdentifiedLetter> batch) {
    using View = std::optional<std::string_view>;
    const auto of_record = [&](auto member) {
        return column(batch, [&](const auto& one) { return one.letter->record.*member; });
    };
    // What a record of no topic does not have.
    const auto of_topic = [&](auto member) {
        return column(batch, [&](const auto& one) {
            const Record& record = one.letter->record;
            return record.topic.empty() ? std::nullopt : std::optional(record.*member);
        });
    };
    const auto origin = [&](auto member) {
        return column(batch, [&](const auto& one) { return one.letter->provenance.*member; });
    };
    const auto view = [&](auto get) {
        return column(batch, [&](const auto& one) {
            const std::optional<std::string>& text = get(*one.letter);
            return text ? View(*text) : std::nullopt;
        });
    };
    Params out(column(batch, &IdentifiedLetter::id), of_topic(&Record::topic), of_topic(&Record::partition),
               of_topic(&Record::offset), of_record(&Record::timestamp_ms),
               column(batch, [](const auto& one) { return name_of(one.letter->record.timestamp_type); }));
    out.bytes_array(view([](const NewLetter& letter) -> const auto& { return letter.record.key; }));
    out.bytes_array(view([](const NewLetter& letter) -> const auto& { return letter.record.value; }));
    out.text_array(column(batch, [](const auto& one) { return record_headers_json(one.letter->record.headers); }));
    out.text_array(view([](const NewLetter& letter) -> const auto& { return letter.payload; }));
    out.int32_array(column(batch, [](const auto& one) { return one.letter->truncated ? 1 : 0; }));
    out.text_array(origin(&Provenance::original_topic)).int32_array(origin(&Provenance::original_partition));
    out.int64_array(origin(&Provenance::original_offset)).text_array(origin(&Provenance::error_message));
    out.text_array(view([](const NewLetter& letter) -> const auto& { return letter.provenance.error_class; }))
        .text_array(view([](const NewLetter& letter) -> const auto& { return letter.provenance.stack_trace; }));
    out.text_array(view([](const NewLetter& letter) -> const auto& { return letter.provenance.producer; }));
    return out.text_array(column(batch, [](const auto& one) { return std::string_view(one.letter->source); }));
}

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
    std::vector<IdentifiedLetter> batch;
    std::size_t bytes = 0;
    for (const std::size_t index : order) {
        const NewLetter& letter = letters[index];
        const std::size_t size = bytes_of(letter);
        if (!batch.empty() && (batch.size() == kMaxStoredAtOnce || bytes + size > kMaxStoredBytesAtOnce)) {
            out.push_back(store_params(batch));
            batch.clear();
            bytes = 0;
        }
        batch.push_back({&letter, letter.id.empty() ? ids.of(index) : letter.id});
        bytes += size;
    }
    out.push_back(store_params(batch));
    return out;
}

std::int64_t rows_written(const PGresult* result) {
    const std::string_view text = PQcmdTuples(const_cast<PGresult*>(result));
    std::int64_t rows = 0;
    std::from_chars(text.data(), text.data() + text.size(), rows);
    return rows;
}

/// The server refused the data themselves (or a constraint that someone added to the table refused them), or their
/// size.
bool refused_data(const Connection& connection) {
    const std::string_view state = connection.refused_with();
    return state.starts_with("22") || state.starts_with("23") || state.starts_with("54");
}

}  // namespace

Result<std::int64_t> PostgresDeadLetters::store(std::span<const NewLetter> letters) {
    if (letters.empty()) return 0;
    const std::vector<Params> all = batches(letters);
    TRY_ASSIGN(auto connection, pool_.borrow());
    const auto run = [&](std::string_view payload) {
        const std::string_view once = letters.front().id.empty()
                                          ? "(source_topic, source_partition, source_offset, record_timestamp_ms)"
                                            " where source_topic is not null"
                                          : "(id)";
        const Statement statement = statement_by_text(
            "letters_store", filled(postgres::letters::sql::store_letters, {{"once", once}, {"payload", payload}}));
        std::vector<Step> steps;
        for (const Params& params : all) steps.push_back(Step{&statement, &params});
        return connection->run(steps, Effect::write, connection->statement_deadline());
    };
    auto results = run("i.payload::jsonb");
    // What is JSON and what jsonb can hold is not quite the same (huge numbers, half surrogates). A statement that
    // finds out for each payload costs much more, so that it is only tried when there is one.
    if (!results && refused_data(*connection) && connection->usable())
        results = run("deliverd.json_or_null(i.payload)");
    if (!results) {
        Error error = std::move(results.error());
        if (refused_data(*connection)) error.code = kLetterRefused;
        return Failure(std::move(error));
    }
    std::int64_t fresh = 0;
    for (const PgResult& result : *results) fresh += rows_written(result.get());
    return fresh;
}

}  // namespace deliverd::store::postgres
