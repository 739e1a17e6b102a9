-- The audit by age, for its retention: without it the oldest lines were found by reading and sorting all of them.
-- All lines of a statement have one time, so that entries are packed: 9 bytes a line, and 1 % of what a retry costs. A
-- BRIN index would cost less, but never learns that lines are gone: once vacuum has let new lines into the places of
-- old ones, every part of the table looks old to it.
create index dlq_audit_at on dlq.dlq_audit (at);
