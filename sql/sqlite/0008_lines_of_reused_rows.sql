-- A line in deliverd_event_failures is about the row with that id. Row ids start over: in a table that was emptied, in a
-- restored one. The next event with that id looked as if it had failed, or was never sent because it looked dead.

-- event_id: of the event, where its table has one. A line whose event is another is ignored and overwritten; one without
-- counts. Where the table has no event ids, the aggregates are compared.
alter table deliverd_event_failures add column event_id text;
