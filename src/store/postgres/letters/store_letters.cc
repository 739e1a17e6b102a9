#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/assert.h"
#include "base/random.h"
#include "base/try.h"
#include "store/letter_rules.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/record_headers.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

// Only what is usually long: it decides where a batch ends.
std::size_t bytes_of(const NewLetter& letter) {
    const auto size = [](const std::optional<std::string>& text) { return text ? text->size() : 0; };
    return size(letter.record.value) + size(letter.record.key) + size(letter.payload) +
           size(letter.provenance.stack_trace);
}

/// A letter, and the id under which it is stored.
struct IdentifiedLetter {
    const NewLetter* letter;
    std::string id;
};

/// The arrays of store_letters.
Params store_params(std::span<const IdentifiedLetter> batch) {
    using Given = const NewLetter&;
    using View = std::optional<std::string_view>;  // payloads are long: only Params copies them
    const auto of = [&](auto get) {
        return column(batch, [&](const IdentifiedLetter& one) { return get(*one.letter); });
    };
    // What a record of no topic does not have.
    const auto of_topic = [&](auto member) {
        return of([&](Given letter) {
            return letter.record.topic.empty() ? std::nullopt : std::optional(letter.record.*member);
        });
    };
    const auto provenance = [&](auto member) { return of([=](Given letter) { return letter.provenance.*member; }); };
    const auto provenance_text = [&](auto member) {
        return of([=](Given letter) { return View(letter.provenance.*member); });
    };
    Params out(column(batch, &IdentifiedLetter::id), of_topic(&Record::topic), of_topic(&Record::partition),
               of_topic(&Record::offset), of([](Given letter) { return letter.record.timestamp_ms; }),
               of([](Given letter) { return record_time_name(letter.record.timestamp_type); }));
    out.bytes_array(of([](Given letter) { return View(letter.record.key); }));
    out.bytes_array(of([](Given letter) { return View(letter.record.value); }));
    return out.array(of([](Given letter) { return record_headers_json(letter.record.headers); }))
        .array(of([](Given letter) { return View(letter.payload); }))
        .array(of([](Given letter) { return letter.truncated ? 1 : 0; }))
        .array(provenance_text(&Provenance::original_topic))
        .array(provenance(&Provenance::original_partition))
        .array(provenance(&Provenance::original_offset))
        .array(provenance_text(&Provenance::error_message))
        .array(provenance_text(&Provenance::error_class))
        .array(provenance_text(&Provenance::stack_trace))
        .array(provenance_text(&Provenance::producer))
        .array(of([](Given letter) { return View(letter.source); }));
}

/// In the order of the records: two processes that store the same ones (a rebalance gives a partition to another member
/// before the first one has committed) wait for each other in one direction, and never both.
std::vector<Params> batches(std::span<const NewLetter> letters) {
    std::vector<std::size_t> order(letters.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t index) {
        const Record& record = letters[index].record;
        return std::tuple(std::string_view(record.topic), record.partition, record.offset, record.timestamp_ms, index);
    });
    SystemRandom random;
    const WallTime now = SystemClock().wall_now();
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
        batch.push_back({&letter, letter.id.empty() ? letter_id(now, index, random) : letter.id});
        bytes += size;
    }
    ASSERT(!batch.empty());  // store() makes no batches of no letters
    out.push_back(store_params(batch));
    return out;
}

/// The server refused the data themselves (or a constraint that someone added to the table refused them), or their
/// size.
bool refused_data(const Connection& connection) {
    const std::string_view state = connection.refused_with();
    return state.starts_with("22") || state.starts_with("23") || state.starts_with("54");
}

}  // namespace

Result<std::int64_t> store_letters(Pool& pool, std::span<const NewLetter> letters) {
    if (letters.empty()) return 0;
    std::vector<Step> steps;
    for (Params& params : batches(letters)) steps.push_back({nullptr, std::move(params)});
    TRY_ASSIGN(auto connection, pool.borrow());
    const auto run = [&](std::string_view payload) {
        // Named, not any conflict: a unique index that somebody made for the table must refuse a letter, not swallow
        // it. A call has letters of one kind only.
        const std::string_view once = letters.front().id.empty()
                                          ? "(source_topic, source_partition, source_offset, record_timestamp_ms)"
                                            " where source_topic is not null"
                                          : "(id)";
        const Statement statement = statement_by_text(
            "letters_store", filled(postgres::letters::sql::store_letters, {{"once", once}, {"payload", payload}}));
        for (Step& step : steps) step.statement = &statement;
        return connection->run(steps, Effect::write);
    };
    auto results = run("i.payload::jsonb");
    // What is JSON and what jsonb can hold is not quite the same (huge numbers, half surrogates). A statement that
    // finds out for each payload costs much more, so that it is only tried when there is one.
    // In a transaction of its own again: the first one has stored nothing.
    if (!results && refused_data(*connection) && connection->usable())
        results = run("deliverd.json_or_null(i.payload)");
    if (!results) {
        Error error = std::move(results.error());
        if (refused_data(*connection)) error.code = codes::kLetterRefused;
        return Failure(std::move(error));
    }
    std::int64_t fresh = 0;
    for (const PgResult& result : *results) fresh += std::atoll(PQcmdTuples(result.get()));
    return fresh;
}

}  // namespace deliverd::store::postgres
