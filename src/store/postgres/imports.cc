#include "store/postgres/imports.h"

#include <utility>
#include <vector>

#include "store/postgres/connection/cells.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// Origin, actor; arrays: keys, aggregates, types, payloads, metadata.
constexpr std::string_view kStoreImport = R"(
with given as materialized (
    select i.key::uuid as key, i.aggregate_id, i.event_type, i.payload::jsonb as payload,
        i.metadata::jsonb as metadata, i.place
    from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        with ordinality as i (key, aggregate_id, event_type, payload, metadata, place)
), fresh as (
    insert into deliverd.imports (key, origin) select g.key, $1::text from given g
    on conflict do nothing
    returning key
), added as (
    insert into @schema.outbox (aggregate_id, event_type, payload, metadata, event_id)
    select g.aggregate_id, g.event_type, g.payload, g.metadata, g.key
    from given g join fresh f using (key)
    order by g.place
    returning id
), trail as (
    insert into @schema.outbox_audit (outbox, outbox_id, reason, status_to, retry_count, detail, actor)
    select 'events', a.id, 'event_imported', 'pending', 0, $1::text, $2::text from added a
)
select count(*) from added)";

const Statement kForgetImport{"imports_forget", "delete from deliverd.imports where origin = $1::text"};

}  // namespace

PostgresImports::PostgresImports(Pool& pool, std::string_view schema)
    : pool_(pool), store_{"imports_store", replaced(std::string(kStoreImport), "@schema", quoted(schema))} {}

Result<std::int64_t> PostgresImports::store(std::string_view origin, std::string_view actor,
                                            std::span<const ImportedEvent> events) {
    using Column = std::vector<std::optional<std::string_view>>;
    Column keys;
    Column aggregates;
    Column types;
    Column payloads;
    Column metadata;
    for (const ImportedEvent& event : events) {
        keys.emplace_back(event.key);
        aggregates.emplace_back(event.aggregate_id);
        types.emplace_back(event.event_type);
        payloads.emplace_back(event.payload);
        metadata.emplace_back(event.metadata);
    }
    Params params;
    params.text(origin).text(actor).text_array(keys).text_array(aggregates).text_array(types);
    params.text_array(payloads).text_array(metadata);
    auto stored = run_once(pool_, store_, params, Effect::write);
    if (!stored) return Failure(std::move(stored.error()));
    return int64_at(stored->get(), 0, 0);
}

Result<void> PostgresImports::forget(std::string_view origin) {
    Params params;
    params.text(origin);
    auto done = run_once(pool_, kForgetImport, params, Effect::write);
    if (!done) return Failure(std::move(done.error()));
    return {};
}

}  // namespace deliverd::store::postgres
