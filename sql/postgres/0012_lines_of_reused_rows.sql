-- A line in event_failures is about the row with that id. Row ids start over: after a truncate with restart identity, in
-- a restored table. The next event with that id looked as if it had failed, or was never sent because it looked dead.

-- event_id: of the event, where its table has one. A line whose event is another is ignored and overwritten; one without
-- (older lines, tables without event ids) is compared by its aggregate where the table has no event id.
alter table deliverd.event_failures add column event_id text;

-- For letters that go back to their row.
alter table deliverd.event_tables add column event_id_column text;

-- Never used.
alter table deliverd.redrives drop column left_over;
