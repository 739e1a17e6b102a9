// An event in a libpqxx transaction that the caller owns (docs/events.md):
//
//     pqxx::work work(connection);
//     work.exec("insert into orders …");
//     const std::int64_t id = deliverd::add_event(work, {"order-1", "OrderCreated", R"({"total": 42})"});
//     work.commit();                                               // both or neither
//
// Header only, for any transaction type of libpqxx 6.4 or later: nothing of deliverd needs to be linked. The database
// must be migrated (`deliverd migrate`).
//
// Failure: as libpqxx reports it, by exceptions. What the database refuses (an empty aggregate or type, text that is
// not JSON, metadata that is not an object) is a pqxx::data_exception. The transaction can then only be rolled back.
#pragma once

#include <cstdint>
#include <string>

#include "deliverd/outbox.h"

namespace deliverd {

/// Stores an event as part of `transaction`; answers its id. One round trip; neither commits nor rolls back.
template <typename Transaction>
std::int64_t add_event(Transaction& transaction, const NewEvent& event) {
    const auto result =
        transaction.exec_params("select deliverd.add_event($1::text, $2::text, $3::text::jsonb, $4::text::jsonb)",
                                std::string(event.aggregate_id), std::string(event.event_type),
                                std::string(event.payload), std::string(event.metadata));
    return result[0][0].template as<std::int64_t>();
}

}  // namespace deliverd
