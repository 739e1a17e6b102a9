#include "store/events.h"

namespace deliverd::store {

EventColumns EventColumns::debezium() {
    EventColumns columns;
    columns.aggregate_id = "aggregateid";
    columns.aggregate_type = "aggregatetype";
    columns.event_type = "type";
    columns.event_id = "";
    columns.metadata = "";
    columns.created_at = "";
    columns.published = "";
    columns.published_at = "";
    columns.retry_count = "";
    columns.next_attempt_at = "";
    columns.last_error = "";
    columns.dead_at = "";
    return columns;
}

}  // namespace deliverd::store
